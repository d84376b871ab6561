package blobguard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/fencedlock/fencedlock/guard"
)

// Pointer is the codec for any bytes on any store, and the default: the object is a small JSON document with the stamp and the
// key of another object, which holds the bytes exactly as given,
//
//	{"_fence":"fencedlock 1 7 pointer ...","data":"report.pdf.data/7-5f0c...","size":12345}
//
// and which is written once, before, and never changed. Its key is that of the object, ".data/", the token and a random
// number. [Guard.Seal] writes the document only. Data that no document names any more, and that of refused or failed writes,
// stays until [Guard.Collect].
func Pointer() Codec { return Codec{pointer{}} }

// pointer is JSON for the document; the data is looked after by Put, Get and Collect.
type pointer struct{ jsonCodec }

func (pointer) String() string { return "Pointer()" }

func (pointer) name() string { return "pointer" }

func (pointer) find(w []byte, _ int64) (string, layout, error) { return findInJSON(w, pointer{}) }

// window takes in the whole document, whose key is at most 1,024 bytes, each up to six in JSON.
func (pointer) window() (int64, int64) { return 0, 8 << 10 }

// place has nothing against content, which is not in the document.
func (pointer) place(content io.ReadSeeker, size int64) (layout, error) {
	return layout{at: 1, comma: size > int64(len(pointer{}.empty()))}, nil
}

// document is the JSON document without its stamp.
type document struct {
	Data string `json:"data"`
	Size int64  `json:"size"`
}

// dataFolder is what no key of an object has in it, so that data is never taken for an object, nor an object for data.
const dataFolder = ".data/"

// dataPrefix begins the keys of the data of the object at key. Not key + "/": stores over a file system cannot keep an object
// and a folder of one name.
func dataPrefix(key string) string { return key + dataFolder }

func readerOf(s string) io.ReadSeeker { return strings.NewReader(s) }

// pointed returns the draft of a document, and writes the data before the first time.
func (g *Guard) pointed(tok guard.Token, content io.ReadSeeker, size int64) func(context.Context, string, record, nonce) (draft, error) {
	var doc []byte
	return func(ctx context.Context, key string, _ record, n nonce) (draft, error) {
		if doc == nil {
			if c, ok := content.(*remote); ok {
				defer c.Close()
			}
			data := dataPrefix(key) + tok.String() + "-" + n.String()
			if err := g.create(ctx, data, content, size); err != nil {
				return draft{}, fmt.Errorf("the data at %q: %w", data, err)
			}
			var err error
			if doc, err = json.Marshal(document{data, size}); err != nil {
				return draft{}, err
			}
		}
		return draft{content: readerOf(string(doc)), size: int64(len(doc)), layout: layout{at: 1, comma: true}}, nil
	}
}

// create writes the data. Nobody else knows its key, so whatever is there is the same, written by an earlier request.
func (g *Guard) create(ctx context.Context, key string, content io.ReadSeeker, size int64) error {
	var last error
	for try := 0; try <= g.opts.MaxRetries; try++ {
		if try > 0 {
			if err := pause(ctx, try-1); err != nil {
				return errors.Join(last, err)
			}
		}
		body := newSplice(content, size, 0, "")
		_, err := g.bucket.Put(ctx, key, body, "")
		switch {
		case err == nil:
			return nil
		case body.err != nil:
			return fmt.Errorf("the content cannot be read: %w", body.err)
		case errors.Is(err, ErrRefused):
			return err
		}
		last = err
		if !errors.Is(err, ErrConflict) {
			continue
		}
		o, err := g.bucket.Get(ctx, key, 0, 0)
		if err == nil {
			err = o.Body.Close()
			if err == nil && o.Size == size {
				return nil
			}
		}
	}
	return last
}

// document reads what a record of a pointer at key says. Data that is not the key's own is another resource's, or nobody's.
func (r record) document(key string) (document, error) {
	var d document
	c := append([]byte(nil), r.window[:r.layout.at]...)
	c = append(c, r.window[r.layout.at+r.layout.length:]...)
	err := json.Unmarshal(c, &d)
	name, own := strings.CutPrefix(d.Data, dataPrefix(key))
	if own {
		_, own = tokenOf(name)
	}
	switch {
	case err != nil || d.Data == "" || d.Size < 0 || !r.whole:
		return d, fmt.Errorf("the object is no document of %s: %w", pointer{}, errors.Join(errDamaged, err))
	case !own:
		return d, fmt.Errorf("the object names the data %.40q, which is not under %.40q: %w", d.Data, dataPrefix(key), errDamaged)
	}
	return d, nil
}

// openData opens the data. A pointer that is not the latest any more may name data that was collected: errChanged then.
func (g *Guard) openData(ctx context.Context, key string, r record) (Value, error) {
	d, err := r.document(key)
	if err != nil {
		return Value{}, err
	}
	o, err := g.bucket.Get(ctx, d.Data, 0, -1)
	switch {
	case errors.Is(err, ErrNotExist):
		now, lookErr := g.look(ctx, key, 0)
		if lookErr != nil {
			return Value{}, lookErr
		}
		if now.version != r.version {
			return Value{}, errChanged
		}
		return Value{}, fmt.Errorf("its data at %q is gone; somebody deleted it: %w", d.Data, errDamaged)
	case err != nil:
		return Value{}, err
	case o.Size != d.Size:
		return Value{}, errors.Join(fmt.Errorf("its data at %q has %d bytes, and %d were written: %w", d.Data, o.Size, d.Size, errDamaged), o.Body.Close())
	}
	return Value{Body: o.Body, Size: d.Size, Token: r.stamp.token}, nil
}
