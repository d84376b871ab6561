//go:build unix

package store

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/fileguard"
	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

var fileKind = Kind{
	Name: "file",
	Init: func(_ context.Context, p Places, resource string) error {
		text, err := json.Marshal(history.NewDoc())
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(p.Files, fileName(resource)), text, 0o644)
	},
	Open: func(_ context.Context, p Places, guarded bool) (Store, error) {
		g, err := fileguard.New(p.Files, nil)
		if err != nil {
			return nil, err
		}
		return &fileStore{marks[*fileguard.Guard]{g, guarded}, p.Files}, nil
	},
}

func fileName(resource string) string { return resource + ".json" }

type fileStore struct {
	marks[*fileguard.Guard]
	dir string
}

func (s *fileStore) Read(_ context.Context, resource string) (d history.Doc, err error) {
	text, err := os.ReadFile(filepath.Join(s.dir, fileName(resource)))
	if err != nil {
		return d, err
	}
	return d, json.Unmarshal(text, &d)
}

func (s *fileStore) Journal(context.Context, string) ([]string, error) { return nil, nil }

func (s *fileStore) Write(ctx context.Context, resource string, tok guard.Token, w Write) error {
	text, err := json.Marshal(w.Doc)
	if err != nil {
		return err
	}
	if s.guarded {
		return s.g.Write(ctx, resource, tok, fileName(resource), 0o644, func(to io.Writer) error {
			half := len(text) / 2
			if _, err := to.Write(text[:half]); err != nil {
				return err
			}
			w.inside()
			_, err := to.Write(text[half:])
			return err
		})
	}
	w.inside()
	// As whole as under the guard: what is missing is the token alone.
	f, err := os.CreateTemp(s.dir, "unguarded-*")
	if err != nil {
		return unguarded(err)
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(s.dir, fileName(resource)))
	}
	return unguarded(err)
}

func (s *fileStore) Close() error { return nil }
