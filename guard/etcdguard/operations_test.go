package etcdguard_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/guard/etcdguard"
)

// The caller's slice may have room behind its end, which is not ours.
func TestOperationsOfTheCallerAreLeftAlone(t *testing.T) {
	p := prefix(t)
	ops := []clientv3.Op{clientv3.OpPut(p+"a", "1"), clientv3.OpPut(p+"b", "2")}
	mustDo(t, newGuard(t, direct, p), "r", 5, ops[:1]...)
	if string(ops[1].KeyBytes()) != p+"b" {
		t.Errorf("the second operation has become one on %q", ops[1].KeyBytes())
	}
}

func TestTransactionOverTheLimitIsRefusedWithTheNumber(t *testing.T) {
	p := prefix(t)
	puts := func(from, n int) (ops []clientv3.Op) {
		for i := range n {
			ops = append(ops, clientv3.OpPut(fmt.Sprint(p, "data/", from+i), "x"))
		}
		return ops
	}
	nested := func(cmps, then, otherwise int) clientv3.Op {
		return clientv3.OpTxn(slices.Repeat([]clientv3.Cmp{clientv3.Compare(clientv3.Version(p), "=", 0)}, cmps), puts(1000, then), puts(2000, otherwise))
	}
	for name, c := range map[string]struct {
		ops    []clientv3.Op
		number int // as etcd counts, with the mark's
	}{
		"plain":            {puts(0, 200), 201},
		"one too many":     {puts(0, 128), 129},
		"the limit":        {puts(0, 127), 128},
		"then":             {append(puts(0, 100), nested(1, 27, 0)), 102 + 27},
		"then, the limit":  {append(puts(0, 100), nested(1, 26, 0)), 102 + 26},
		"else":             {append(puts(0, 100), nested(1, 2, 27)), 102 + 27},
		"else, the limit":  {append(puts(0, 100), nested(1, 2, 26)), 102 + 26},
		"comparisons":      {append(puts(0, 100), nested(27, 1, 1)), 102 + 27},
		"two of them":      {append(puts(0, 100), nested(1, 20, 0), nested(0, 0, 7)), 103 + 20},
		"deep":             {append(puts(0, 100), clientv3.OpTxn(nil, append(puts(3000, 9), nested(1, 17, 17)), nil)), 102 + 10 + 17},
		"deep, the limit":  {append(puts(0, 100), clientv3.OpTxn(nil, append(puts(3000, 9), nested(1, 16, 16)), nil)), 102 + 10 + 16},
		"deep and nothing": {puts(0, 1), 2},
	} {
		t.Run(name, func(t *testing.T) {
			faults, client := faulty(t)
			g := newGuard(t, client, p)
			err := g.Do(t.Context(), "r", 5, c.ops...)
			if over := c.number > 128; over != errors.Is(err, rpctypes.ErrTooManyOps) || !over && err != nil {
				t.Errorf("Do with %d operations = %v", c.number, err)
			}
			if err != nil && (!strings.Contains(err.Error(), fmt.Sprintf("would have %d,", c.number)) || !strings.Contains(err.Error(), "at most 128") || faults.Count("").Calls != 0) {
				t.Errorf("%v, after %d calls; want the numbers %d and 128, and no call", err, faults.Count("").Calls, c.number)
			}
			// What is counted here is what etcd counts.
			lenient := newGuardWith(t, client, etcdguard.Options{Prefix: p + "marks/", MaxOps: 1000})
			err = lenient.Do(t.Context(), "r", 5, c.ops...)
			if over := c.number > 128; over && (!errors.Is(err, rpctypes.ErrTooManyOps) || !strings.Contains(err.Error(), "Options.MaxOps")) || !over && err != nil {
				t.Errorf("etcd says %v to %d operations", err, c.number)
			}
		})
	}
}

func TestMarksAreOutOfReachOfOperations(t *testing.T) {
	p := prefix(t)
	faults, client := faulty(t)
	g := newGuard(t, client, p)
	mustDo(t, g, "r", 5)
	before := faults.Count("").Calls
	marks := p + "marks/"
	for name, op := range map[string]clientv3.Op{
		"put of the own mark":       clientv3.OpPut(marks+"r", "x"),
		"put of another mark":       clientv3.OpPut(marks+"other", "x"),
		"delete":                    clientv3.OpDelete(marks + "r"),
		"delete of all marks":       clientv3.OpDelete(marks, clientv3.WithPrefix()),
		"delete of more":            clientv3.OpDelete(p, clientv3.WithPrefix()),
		"delete of everything":      clientv3.OpDelete("", clientv3.WithPrefix()),
		"delete from a key on":      clientv3.OpDelete(p, clientv3.WithFromKey()),
		"delete of a range":         clientv3.OpDelete(p+"a", clientv3.WithRange(p+"z")),
		"delete from among them on": clientv3.OpDelete(marks+"s", clientv3.WithFromKey()),
		"delete in a branch":        clientv3.OpTxn(nil, nil, []clientv3.Op{clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpDelete(marks + "r")}, nil)}),
		"no operation":              {},
		"no operation in a branch":  clientv3.OpTxn(nil, []clientv3.Op{{}}, nil),
		"no key":                    clientv3.OpPut("", "x"),
	} {
		if err := g.Do(t.Context(), "r", 6, clientv3.OpPut(p+"data", "x"), op); err == nil || !strings.HasPrefix(err.Error(), "etcdguard: operation 1: ") {
			t.Errorf("%s: %v; want a refusal", name, err)
		}
	}
	if calls := faults.Count("").Calls; calls != before {
		t.Errorf("refusing took %d calls", calls-before)
	}
	for name, op := range map[string]clientv3.Op{
		"delete before them":    clientv3.OpDelete(p, clientv3.WithRange(marks)),
		"delete behind them":    clientv3.OpDelete(p+"marks0", clientv3.WithRange(p+"z")),
		"delete with no branch": clientv3.OpTxn(nil, nil, nil),
		"get of the marks":      clientv3.OpGet(marks, clientv3.WithPrefix()),
		"put of the folder":     clientv3.OpPut(p+"marks", "x"),
	} {
		if err := g.Do(t.Context(), "r", 6, op); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The error says what the operation reaches, in words of its caller, who may not know that an empty key is sent as "\x00".
func TestRefusalSaysWhatReachesMarks(t *testing.T) {
	g := newGuard(t, direct, "/none/")
	for want, op := range map[string]clientv3.Op{
		"changes all keys;":                             clientv3.OpDelete("", clientv3.WithPrefix()),
		`changes all keys from "/none/" on;`:            clientv3.OpDelete("/none/", clientv3.WithFromKey()),
		`changes the keys from "/none/" up to "/none0"`: clientv3.OpDelete("/none/", clientv3.WithPrefix()),
		`changes the key "/none/marks/r";`:              clientv3.OpPut("/none/marks/r", "x"),
	} {
		err := g.Do(t.Context(), "r", 5, op)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `the keys under "/none/marks/" are marks`) {
			t.Errorf("%v; want %q in it", err, want)
		}
	}
}
