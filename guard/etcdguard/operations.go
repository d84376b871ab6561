package etcdguard

import (
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// checkOps refuses what etcd would refuse for its number, what the client would panic on, and writes to marks.
func (g *Guard) checkOps(ops []clientv3.Op) error {
	for i, op := range ops {
		if err := g.checkOp(op); err != nil {
			return fmt.Errorf("etcdguard: operation %d: %w; nothing was sent", i, err)
		}
	}
	// One more for the mark; its comparisons are two at most, and in the other branch there is one read.
	if n := max(leastOps, len(ops)+1) + deepest(ops); n > g.opts.MaxOps {
		return fmt.Errorf("etcdguard: %w: it would have %d, with one for the mark, and nested ones counted by etcd's rule; at most %d are "+
			"allowed (Options.MaxOps, which must not exceed etcd's --max-txn-ops); nothing was sent", rpctypes.ErrTooManyOps, n, g.opts.MaxOps)
	}
	return nil
}

func (g *Guard) checkOp(op clientv3.Op) error {
	switch {
	case op.IsTxn():
		_, then, otherwise := op.Txn()
		for _, branch := range [][]clientv3.Op{then, otherwise} {
			for _, nested := range branch {
				if err := g.checkOp(nested); err != nil {
					return err
				}
			}
		}
		return nil
	case !op.IsGet() && !op.IsPut() && !op.IsDelete():
		return errors.New("it is none; make it by clientv3.OpPut, OpDelete, OpGet or OpTxn")
	case len(op.KeyBytes()) == 0:
		return rpctypes.ErrEmptyKey
	case !op.IsGet() && g.touchesMarks(string(op.KeyBytes()), string(op.RangeBytes())):
		return fmt.Errorf("it changes %s; the keys under %q are marks, which only guards change", reach(string(op.KeyBytes()), string(op.RangeBytes())), g.opts.Prefix)
	}
	return nil
}

// touchesMarks tells whether the range of an operation has keys of marks in it. end is "" for a single key, and "\x00" for
// all that follow.
func (g *Guard) touchesMarks(key, end string) bool {
	if end == "" {
		return g.opts.Prefix <= key && key < g.end
	}
	return key < g.end && (end == "\x00" || g.opts.Prefix < end)
}

// reach words what the range of an operation covers.
func reach(key, end string) string {
	switch {
	case end == "":
		return fmt.Sprintf("the key %.80q", key)
	case end != "\x00":
		return fmt.Sprintf("the keys from %.80q up to %.80q", key, end)
	case key == "\x00":
		return "all keys"
	}
	return fmt.Sprintf("all keys from %.80q on", key)
}

// deepest is what nested transactions add: on each level the longest of their three lists counts, and levels add up, as in
// https://github.com/etcd-io/etcd/blob/main/server/etcdserver/api/v3rpc/key.go (checkTxnRequest).
func deepest(ops []clientv3.Op) int {
	n := 0
	for _, op := range ops {
		if op.IsTxn() {
			cmps, then, otherwise := op.Txn()
			n = max(n, max(len(cmps), len(then), len(otherwise))+max(deepest(then), deepest(otherwise)))
		}
	}
	return n
}
