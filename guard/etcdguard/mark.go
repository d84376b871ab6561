package etcdguard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fencedlock/fencedlock/guard"
)

// mark is what a resource's key holds.
type mark struct {
	token  guard.Token // the highest that was accepted; 0 without a key
	writes int64       // how many were accepted; see state.fate
	last   []last      // the latest write of each of the Guards that wrote last, newest first
}

// last names a write: the Guard that made it, and its own number.
type last struct{ instance, number string }

// remembered is how many Guards a mark remembers. A Guard that is not among them cannot tell whether a write was applied
// whose reply was lost, if so many others have written meanwhile.
const remembered = 8

// form is the stored form, version 1:
//
//	{"v":1,"token":"42","writes":17,"last":["CZ5RZ3HKR6N2A-7Q2BV4TNXWPOA"]}
type form struct {
	Version int         `json:"v"`
	Token   guard.Token `json:"token"`
	Writes  int64       `json:"writes,omitempty"`
	Last    []string    `json:"last,omitempty"`
}

const formVersion = 1

// next is the mark that a write leaves behind.
func (m mark) next(tok guard.Token, by last) mark {
	n := mark{token: tok, writes: m.writes + 1, last: []last{by}}
	for _, l := range m.last {
		if l.instance != by.instance && len(n.last) < remembered {
			n.last = append(n.last, l)
		}
	}
	return n
}

func (m mark) encode() (string, error) {
	f := form{Version: formVersion, Token: m.token, Writes: m.writes}
	for _, l := range m.last {
		f.Last = append(f.Last, l.instance+"-"+l.number)
	}
	b, err := json.Marshal(f)
	return string(b), err
}

// decode refuses what it does not know: a mark that cannot be read must not count as a low one.
func decode(value []byte) (mark, error) {
	var v struct {
		Version int `json:"v"`
	}
	if err := json.Unmarshal(value, &v); err != nil {
		return mark{}, err
	}
	if v.Version != formVersion {
		return mark{}, fmt.Errorf("its version is %d, this release knows %d", v.Version, formVersion)
	}
	var f form
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return mark{}, err
	}
	if f.Token <= 0 {
		return mark{}, errors.New("it has no token")
	}
	if len(f.Last) > remembered {
		return mark{}, fmt.Errorf("it names %d writes, at most %d are possible", len(f.Last), remembered)
	}
	if f.Writes < 0 {
		return mark{}, fmt.Errorf("it counts %d writes", f.Writes)
	}
	m := mark{token: f.Token, writes: f.Writes}
	for _, s := range f.Last {
		instance, number, found := strings.Cut(s, "-")
		if !found || instance == "" || number == "" {
			return mark{}, fmt.Errorf("%.40q does not name a write", s)
		}
		if slices.ContainsFunc(m.last, func(l last) bool { return l.instance == instance }) {
			return mark{}, fmt.Errorf("it names two writes of %.40q", instance)
		}
		m.last = append(m.last, last{instance, number})
	}
	return m, nil
}
