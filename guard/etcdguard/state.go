package etcdguard

import (
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/guard"
)

// state is a mark as it was in etcd at one time. The zero state is that of a resource that was never marked.
type state struct {
	mark
	raw      string
	revision int64 // the key's mod revision; 0: there is no key
	created  int64 // its create revision
	version  int64 // how often it was written since then
}

// parse returns the state that a read of key has found.
func parse(resource, key string, kvs []*mvccpb.KeyValue) (state, error) {
	if len(kvs) == 0 {
		return state{}, nil
	}
	m, err := decode(kvs[0].Value)
	if err != nil {
		return state{}, fmt.Errorf("etcdguard: the mark of %q cannot be read, so no write is let in: %w; put back what the key %q held, "+
			`or {"v":1,"token":"..."} with a token that is at least as high as every one that was used`, resource, err, key)
	}
	return state{mark: m, raw: string(kvs[0].Value), revision: kvs[0].ModRevision, created: kvs[0].CreateRevision, version: kvs[0].Version}, nil
}

// unchanged are the comparisons that hold as long as the mark is in this state, and never again: no two writes leave the
// same value. The value also tells apart what the revision does not, after a restore from a backup, when revisions are
// given out a second time. On an absent key a value is never equal to anything.
func (s state) unchanged(key string) []clientv3.Cmp {
	cmps := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", s.revision)}
	if s.revision != 0 {
		cmps = append(cmps, clientv3.Compare(clientv3.Value(key), "=", s.raw))
	}
	return cmps
}

// fate is what became of a transaction that compared with a state.
type fate int

const (
	pending fate = iota // not applied, and it may be yet
	applied             // applied
	missed              // not applied, and never will be
	unclear             // cannot be told
)

// fate tells, from a later state of the mark, what became of the write by that compared with base. The writes of one Guard
// to one resource run one after the other, and a Guard never goes on from a state before it knows the fate of what it
// sent on that state, but for writes that it has given up.
func (s state) fate(base state, tok guard.Token, by last) fate {
	if s.revision == base.revision && s.raw == base.raw {
		return pending
	}
	for _, l := range s.last {
		if l == by {
			return applied
		}
	}
	// Guards count each write in the mark, and etcd each put of it. Where these differ, somebody else has put it meanwhile.
	if s.created != base.created || s.version <= base.version || s.version-s.writes != base.version-base.writes {
		return unclear // deleted, restored or repaired meanwhile: what it remembers may be another story
	}
	for _, l := range s.last {
		if l.instance == by.instance {
			return missed // it would have taken this place
		}
	}
	// It would be remembered, unless as many others have come after it; and it would have raised the mark for good.
	if s.token < tok || len(s.last) < remembered || s.version-base.version <= remembered {
		return missed
	}
	return unclear
}
