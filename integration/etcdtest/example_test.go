package etcdtest_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

// Outside of a test, or in TestMain for all tests of a package, use New. A reply that is lost leaves the caller in doubt,
// and the write in the store.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cluster, err := etcdtest.New(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()

	var faults etcdtest.Faults
	client, err := cluster.NewClient(faults.Apply)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	faults.LoseReplies("Put", 1)
	_, err = client.Put(ctx, "greeting", "hello")
	fmt.Println("put:", err)
	resp, err := client.Get(ctx, "greeting")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("got: %s\n", resp.Kvs[0].Value)
	// Output:
	// put: rpc error: code = Unavailable desc = etcdtest: reply lost
	// got: hello
}
