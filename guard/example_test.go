package guard_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencedlock/fencedlock/guard"
)

// A holder that was paused comes back after its successor has written.
func ExampleGate_Do() {
	var gate guard.Gate
	var price int
	set := func(tok guard.Token, p int) error {
		return gate.Do("price", tok, func() error { price = p; return nil })
	}
	fmt.Println(set(7, 100))
	fmt.Println(set(9, 120)) // the next holder
	err := set(7, 90)        // the first one, late
	var stale *guard.StaleError
	fmt.Println(errors.As(err, &stale), stale.Highest, price)
	// Output:
	// <nil>
	// <nil>
	// true 9 120
}

// A new holder raises the mark before it reads, so that nothing older can land between its read and its write.
func ExampleSealer() {
	var gate guard.Gate
	ctx := context.Background()
	fmt.Println(gate.Seal(ctx, "price", 9))
	fmt.Println(errors.Is(gate.Do("price", 7, func() error { return nil }), guard.ErrStale))
	fmt.Println(gate.Highest(ctx, "price"))
	// Output:
	// <nil>
	// true
	// 9 <nil>
}

func ExampleIdempotencyKey() {
	fmt.Println(guard.IdempotencyKey("orders/4711", "charge"))
	// Output: 9011e8ce-fa88-81c5-99e2-95039409c3c0
}
