package buckettest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/fencedlock/fencedlock/guard/blobguard"
)

// many is more than the stores give in one answer.
const many = 1010

func checkList(ctx context.Context, b blobguard.Bucket) error {
	var f findings
	keys := make([]string, many)
	var wg sync.WaitGroup
	errs := make([]error, many)
	turns := make(chan struct{}, 16)
	for i := range many {
		keys[i] = fmt.Sprintf("list.d/%04d", i)
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			_, errs[i] = b.Put(ctx, keys[i], strings.NewReader("x"), "")
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		f.add("Put of many: %w", err)
	}
	f.put(ctx, b, "list.e", "x", "")
	f.put(ctx, b, "lis", "x", "")
	f.lists(ctx, b, "list.d/", keys...)
	f.lists(ctx, b, "list.d/10", keys[1000:]...)
	f.lists(ctx, b, "list.e", "list.e")
	f.lists(ctx, b, "nothing")
	for key, err := range b.List(ctx, "list.d/") { // an early end
		if err != nil || !strings.HasPrefix(key, "list.d/") {
			f.add("List = %q, %v", key, err)
		}
		break
	}
	return f.err()
}
