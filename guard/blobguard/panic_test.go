//go:build unix

package blobguard_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/internal/membucket"
)

type panicsInRead struct{ *strings.Reader }

func (panicsInRead) Read([]byte) (int, error) { panic("boom") }

type panicsInSeek struct{ *strings.Reader }

func (panicsInSeek) Seek(int64, int) (int64, error) { panic("boom") }

// The caller of an operation that panicked does not hear its outcome, and whoever counts outcomes must not take it for applied.
func TestPanicOfTheContentIsNotReportedAsApplied(t *testing.T) {
	onEach(t, func(t *testing.T, codec blobguard.Codec) {
		for name, content := range map[string]io.ReadSeeker{"Read": panicsInRead{strings.NewReader("abc")}, "Seek": panicsInSeek{strings.NewReader("abc")}} {
			var outcomes []error
			g := newGuard(t, membucket.New(false), &blobguard.Options{Codec: codec, OnOutcome: func(_ context.Context, _ string, _ guard.Token, err error) {
				outcomes = append(outcomes, err)
			}})
			func() {
				defer func() {
					if p := recover(); p != "boom" {
						t.Errorf("%s: recovered %v; want the content's panic", name, p)
					}
				}()
				_ = g.Put(t.Context(), "doc", 5, content)
			}()
			if len(outcomes) != 1 || !errors.Is(outcomes[0], guard.ErrUnknown) {
				t.Errorf("%s: outcomes are %v; want one of ErrUnknown", name, outcomes)
			}
			mustPut(t, g, "doc", 5, encode(codec, "a")) // the turn was given back
		}
	})
}
