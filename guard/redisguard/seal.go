package redisguard

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/fencedlock/guard"
)

// Seal implements [guard.Sealer]; its errors are those of [Guard.Set]. Calling it again is harmless. After
// [guard.ErrUnknown] of another operation it makes sure that what is read next stays: an operation that is still on its way
// is refused from then on.
func (g *Guard) Seal(ctx context.Context, resource string, tok guard.Token) (err error) {
	defer func() { g.report(ctx, resource, tok, err) }()
	if err := g.check(resource, tok); err != nil {
		return err
	}
	_, err = g.do(ctx, &operation{name: "Seal", resource: resource, tok: tok, program: sealProgram, keys: []string{g.mark(resource)}})
	return err
}

// Highest implements [guard.Sealer]. It reads from a server that takes writes, as [Guard.Get] does. A mark that cannot be
// read is an error that names its key.
func (g *Guard) Highest(ctx context.Context, resource string) (guard.Token, error) {
	if err := g.made(); err != nil {
		return 0, err
	}
	if err := guard.CheckResource(resource); err != nil {
		return 0, err
	}
	key := g.mark(resource)
	text, err := g.read(ctx, key)
	switch {
	case err == redis.Nil:
		return 0, nil
	case err != nil:
		return 0, because(ctx, fmt.Errorf("redisguard: the mark of %q at the key %q: %w", resource, key, err))
	}
	fields := strings.SplitN(text, " ", 4)
	if len(fields) == 4 && fields[0] == "1" {
		if tok, err := guard.ParseToken(fields[1]); err == nil {
			return tok, nil
		}
	}
	return 0, fmt.Errorf("redisguard: the mark of %q at the key %q cannot be read, it begins with %.64q; it was written by something else, or by another version",
		resource, key, text)
}
