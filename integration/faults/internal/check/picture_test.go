package check

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestAPictureOfWhatIsNotLinearizable(t *testing.T) {
	s := newStory()
	s.take(7)
	s.take(9)
	s.look(7)
	for _, v := range All(s.end(), Options{TTL: time.Second}) {
		if v.Picture == nil {
			continue
		}
		path := filepath.Join(t.TempDir(), "picture.html")
		if err := v.Picture(path); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Size() < 1000 {
			t.Errorf("the picture: %v, %v", info, err)
		}
		return
	}
	t.Error("nobody drew a picture")
}

func TestThousandsOfHoldsAreJudgedInTime(t *testing.T) {
	s := newStory()
	for tok := range int64(3000) {
		s.work(tok+1, 2)
	}
	began := time.Now()
	if found := judged(s); len(found) > 0 {
		t.Error(found)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}
