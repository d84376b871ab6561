package etcdguard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

// A mark remembers the writes of eight Guards. What has passed out of it is unknown, and is neither called stale nor done again.
func TestFateThatTheMarkHasForgottenIsUnknown(t *testing.T) {
	for _, others := range []int{7, 8} {
		for _, tok := range []guard.Token{5, 9} { // the others'
			t.Run(fmt.Sprintf("%d others with %d", others, tok), func(t *testing.T) {
				p := prefix(t)
				faults, client := faulty(t)
				g := newGuard(t, client, p)
				mustDo(t, g, "r", 5)
				afterApplying(faults, codes.Unavailable, func() {
					for i := range others {
						mustDo(t, newGuard(t, direct, p), "r", tok, clientv3.OpPut(p+"data", fmt.Sprint("other ", i)))
					}
				})
				err := g.Do(t.Context(), "r", 5, clientv3.OpPut(p+"data", "mine"))
				if others == 7 && err != nil {
					t.Errorf("Do = %v; want nil, the mark still shows it", err)
				}
				if others == 8 && (!errors.Is(err, guard.ErrUnknown) || errors.Is(err, guard.ErrStale)) {
					t.Errorf("Do = %v; want ErrUnknown", err)
				}
				expect(t, p+"data", fmt.Sprint("other ", others-1), int64(others+1))
			})
		}
	}
}

// Nobody deletes marks. Where somebody does, at least nothing is guessed from what was written since.
func TestFateIsUnknownWhenTheMarkWasDeletedMeanwhile(t *testing.T) {
	for writes := range 4 {
		t.Run(fmt.Sprint(writes, " writes since"), func(t *testing.T) {
			p := prefix(t)
			faults, client := faulty(t)
			g := newGuard(t, client, p)
			mustDo(t, g, "r", 5)
			afterApplying(faults, codes.Unavailable, func() {
				if _, err := direct.Delete(t.Context(), p+"marks/r"); err != nil {
					t.Error(err)
				}
				for range writes {
					mustDo(t, newGuard(t, direct, p), "r", 5)
				}
			})
			if err := g.Do(t.Context(), "r", 5, clientv3.OpPut(p+"data", "mine")); !errors.Is(err, guard.ErrUnknown) {
				t.Errorf("Do = %v; want ErrUnknown", err)
			}
			expect(t, p+"data", "mine", 1)
			mustDo(t, g, "r", 5) // it goes on from what is there
		})
	}
}

// A Guard does not forget with the mark.
func TestDeletedMarkIsNotMadeAgainByALowerToken(t *testing.T) {
	p := prefix(t)
	g := newGuard(t, direct, p)
	mustDo(t, g, "r", 9)
	if _, err := direct.Delete(t.Context(), p+"marks/r"); err != nil {
		t.Fatal(err)
	}
	if err := g.Do(t.Context(), "r", 5, clientv3.OpPut(p+"data", "mine")); !errors.Is(err, guard.ErrStale) {
		t.Errorf("Do = %v; want ErrStale", err)
	}
	expect(t, p+"marks/r", "", 0)
}

// A repair puts a list without the write, which is not taken for a proof that there was none.
func TestFateIsUnknownWhenTheMarkWasRepairedMeanwhile(t *testing.T) {
	for writes := range 3 {
		t.Run(fmt.Sprint(writes, " writes since"), func(t *testing.T) {
			p := prefix(t)
			faults, client := faulty(t)
			g := newGuard(t, client, p)
			mustDo(t, g, "r", 5)
			was := get(t, p+"marks/r").value
			for i, repair := range []string{`{"v":1,"token":"5"}`, `{"v":1,"token":"4"}`, was} {
				mustDo(t, g, "r", 5)
				afterApplying(faults, codes.Unavailable, func() {
					if _, err := direct.Put(t.Context(), p+"marks/r", repair); err != nil {
						t.Error(err)
					}
					for range writes {
						mustDo(t, newGuard(t, direct, p), "r", 5)
					}
				})
				if err := g.Do(t.Context(), "r", 5, clientv3.OpPut(p+"data", "mine")); !errors.Is(err, guard.ErrUnknown) {
					t.Errorf("repaired by %s: Do = %v; want ErrUnknown", repair, err)
				}
				expect(t, p+"data", "mine", int64(i+1))
			}
			mustDo(t, g, "r", 5) // it goes on from what is there
		})
	}
}

// Where no mark was, its deletion leaves no trace. So the first write of a resource is sent only on a mark that is there.
func TestFirstWriteIsAppliedOnceThoughTheMarkIsDeletedMeanwhile(t *testing.T) {
	for _, c := range losing {
		for call := 1; call <= 2; call++ { // of the mark, and of the write
			for writes := range 2 {
				t.Run(fmt.Sprint(c, " of transaction ", call, ", then ", writes), func(t *testing.T) {
					p := prefix(t)
					faults, client := faulty(t)
					g := newGuard(t, client, p)
					if call == 2 {
						faults.Do("Txn", 1, func(ctx context.Context, call *etcdtest.Call) error { return call.Send(ctx) })
					}
					afterApplying(faults, c, func() {
						if _, err := direct.Delete(t.Context(), p+"marks/r"); err != nil {
							t.Error(err)
						}
						for range writes {
							mustDo(t, newGuard(t, direct, p), "r", 5)
						}
					})
					err := g.Do(t.Context(), "r", 5, clientv3.OpPut(p+"data", "mine"))
					if call == 1 && err != nil || call == 2 && !errors.Is(err, guard.ErrUnknown) {
						t.Errorf("Do = %v", err)
					}
					expect(t, p+"data", "mine", 1)
				})
			}
		}
	}
}

// Many writes of few Guards are no reason not to know.
func TestFateIsKnownThoughOneOtherGuardHasWrittenOften(t *testing.T) {
	p := prefix(t)
	g, other := newGuard(t, direct, p), newGuard(t, direct, p)
	mustDo(t, g, "r", 5) // and thus the mark is known
	for range 20 {
		mustDo(t, other, "r", 5, clientv3.OpPut(p+"data", "theirs"))
	}
	mustDo(t, g, "r", 5, clientv3.OpPut(p+"data", "mine"))
	expect(t, p+"data", "mine", 21)
	for range 20 {
		mustDo(t, other, "r", 6)
	}
	if err := g.Do(t.Context(), "r", 5); !errors.Is(err, guard.ErrStale) {
		t.Errorf("Do = %v; want ErrStale", err)
	}
}

// A new holder's token is proof enough: had its write been applied, the mark would be as high.
func TestNewHolderIsNotHeldUpByAllTheWritesItMissed(t *testing.T) {
	p := prefix(t)
	g := newGuard(t, direct, p)
	mustDo(t, g, "r", 5)
	for i := range 20 {
		mustDo(t, newGuard(t, direct, p), "r", guard.Token(6+i))
	}
	mustDo(t, g, "r", 30, clientv3.OpPut(p+"data", "mine"))
	expect(t, p+"data", "mine", 1)
}
