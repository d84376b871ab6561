//go:build unix

package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/etcdguard"
	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

var etcdKind = Kind{
	Name: "etcd",
	Init: func(ctx context.Context, p Places, resource string) (err error) {
		s, err := openEtcd(p, false)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		d := history.NewDoc()
		list, err := json.Marshal(listOf{d.Gen, d.List})
		if err != nil {
			return err
		}
		ops := []clientv3.Op{clientv3.OpPut(etcdList(resource), string(list))}
		for id, balance := range d.Accounts {
			ops = append(ops, clientv3.OpPut(etcdAccount(resource, id), strconv.Itoa(balance)))
		}
		_, err = s.client.Txn(ctx).Then(ops...).Commit()
		return err
	},
	Open: func(_ context.Context, p Places, guarded bool) (Store, error) { return openEtcd(p, guarded) },
}

// EtcdClient makes a client that gives up on silent connections.
func EtcdClient(endpoints []string, edits ...func(*clientv3.Config)) (*clientv3.Client, error) {
	cfg := clientv3.Config{
		Endpoints:            endpoints,
		DialTimeout:          5 * time.Second,
		DialKeepAliveTime:    2 * time.Second,
		DialKeepAliveTimeout: 2 * time.Second,
		Logger:               zap.NewNop(),
	}
	for _, edit := range edits {
		edit(&cfg)
	}
	return clientv3.New(cfg)
}

func openEtcd(p Places, guarded bool) (*etcdStore, error) {
	s := &etcdStore{marks: marks[*etcdguard.Guard]{guarded: guarded}}
	var err error
	s.client, err = EtcdClient(p.Etcd, func(c *clientv3.Config) {
		c.DialOptions = append(c.DialOptions, grpc.WithContextDialer(s.sent.dialTCP))
	})
	if err != nil {
		return nil, err
	}
	if s.g, err = etcdguard.New(s.client, &etcdguard.Options{Prefix: "/data-marks/"}); err != nil {
		return nil, errors.Join(err, s.client.Close())
	}
	return s, nil
}

type etcdStore struct {
	marks[*etcdguard.Guard]
	sent   halfway
	client *clientv3.Client
}

func etcdPrefix(resource string) string          { return "/data/" + resource + "/" }
func etcdAccount(resource string, id int) string { return etcdPrefix(resource) + strconv.Itoa(id) }
func etcdList(resource string) string            { return etcdPrefix(resource) + "list" }
func etcdJournal(resource string) string         { return "/journal/" + resource + "/" } // each write has a key there
func (s *etcdStore) Close() error                { return s.client.Close() }

func (s *etcdStore) Read(ctx context.Context, resource string) (d history.Doc, err error) {
	resp, err := s.client.Get(ctx, etcdPrefix(resource), clientv3.WithPrefix())
	if err != nil {
		return d, err
	}
	if len(resp.Kvs) != 1+history.Accounts {
		return d, fmt.Errorf("store: etcd: %d keys under %s", len(resp.Kvs), etcdPrefix(resource))
	}
	for _, kv := range resp.Kvs {
		name := strings.TrimPrefix(string(kv.Key), etcdPrefix(resource))
		if name == "list" {
			var l listOf
			if err := json.Unmarshal(kv.Value, &l); err != nil {
				return d, err
			}
			d.Gen, d.List = l.Gen, l.List
			continue
		}
		id, err := strconv.Atoi(name)
		if err != nil || id < 0 || id >= history.Accounts {
			return d, fmt.Errorf("store: etcd: a key %s", kv.Key)
		}
		if d.Accounts[id], err = strconv.Atoi(string(kv.Value)); err != nil {
			return d, err
		}
	}
	return d, nil
}

// Journal knows of a key when it was put first, and last, and how often.
func (s *etcdStore) Journal(ctx context.Context, resource string) ([]string, error) {
	resp, err := s.client.Get(ctx, etcdJournal(resource), clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	type entry struct {
		revision int64
		op       string
	}
	var entries []entry
	for _, kv := range resp.Kvs {
		op := strings.TrimPrefix(string(kv.Key), etcdJournal(resource))
		entries = append(entries, entry{kv.CreateRevision, op})
		for range kv.Version - 1 {
			entries = append(entries, entry{kv.ModRevision, op})
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.revision, b.revision) })
	ops := []string{}
	for _, e := range entries {
		ops = append(ops, e.op)
	}
	return ops, nil
}

// WriteInTxn tells whether what is sent to etcd is a write.
func WriteInTxn(text []byte) bool {
	resource := etcdKind.Resource()
	return bytes.Contains(text, []byte(etcdJournal(resource))) && bytes.Contains(text, []byte(etcdList(resource)))
}

func (s *etcdStore) Write(ctx context.Context, resource string, tok guard.Token, w Write) error {
	list, err := json.Marshal(listOf{w.Doc.Gen, w.Doc.List})
	if err != nil {
		return err
	}
	ops := []clientv3.Op{clientv3.OpPut(etcdList(resource), string(list)), clientv3.OpPut(etcdJournal(resource)+w.op(), "")}
	for _, id := range []int{w.Change.From, w.Change.To} {
		ops = append(ops, clientv3.OpPut(etcdAccount(resource, id), strconv.Itoa(w.Doc.Accounts[id])))
	}
	defer s.sent.expect(w)()
	if s.guarded {
		return s.g.Do(ctx, resource, tok, ops...)
	}
	_, err = s.client.Txn(ctx).Then(ops...).Commit()
	return unguarded(err)
}
