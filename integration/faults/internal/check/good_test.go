package check

import (
	"maps"
	"testing"
	"time"
)

func TestGoodHistoriesBreakNoPromise(t *testing.T) {
	stories := maps.Clone(goodWrites)
	maps.Copy(stories, goodLocks)
	if len(stories) != len(goodWrites)+len(goodLocks) {
		t.Error("two stories have one name")
	}
	for story, play := range stories {
		t.Run(story, func(t *testing.T) {
			s := newStory()
			play(s)
			for _, v := range All(s.end(), Options{TTL: 2 * time.Second}) {
				t.Error(v)
			}
		})
	}
}
