package fileguard

import (
	"errors"
	"syscall"
	"testing"
)

// A mark that is seen may not be on the disk yet, and one that is told must be.
func TestHighestTellsNoMarkThatItCouldNotSync(t *testing.T) {
	dir := memoryDir(t)
	own := mustNew(t, dir, nil)
	broken := false
	synced := 0
	other := newHooked(t, dir, nil, func(op, name string) error {
		if op == "sync" && name == marksDir {
			if broken {
				return syscall.EIO
			}
			synced++
		}
		return nil
	})
	broken = true
	if high, err := other.Highest(t.Context(), account); high != 0 || err != nil {
		t.Errorf("without a mark: %d, %v; want 0, which nothing can take back", high, err)
	}
	if err := own.Seal(t.Context(), account, 9); err != nil {
		t.Fatal(err)
	}
	if high, err := other.Highest(t.Context(), account); high != 0 || !errors.Is(err, syscall.EIO) {
		t.Errorf("of a mark that cannot be synced: %d, %v; want the disk's error", high, err)
	}
	broken = false
	if high, err := other.Highest(t.Context(), account); high != 9 || err != nil || synced != 1 {
		t.Errorf("of another's mark: %d, %v, synced %d times; want 9, synced once", high, err, synced)
	}
	if err := other.Seal(t.Context(), account, 9); err != nil {
		t.Fatal(err)
	}
	synced = 0
	if high, err := other.Highest(t.Context(), account); high != 9 || err != nil || synced != 0 {
		t.Errorf("of a mark that this guard has synced: %d, %v, synced %d times; want 9, not synced again", high, err, synced)
	}
}
