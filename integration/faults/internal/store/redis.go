//go:build unix

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/redisguard"
	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

var redisKind = Kind{
	Name: "redis",
	Init: func(ctx context.Context, p Places, resource string) (err error) {
		s, err := openRedis(ctx, p, false)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		d := history.NewDoc()
		list, err := json.Marshal(listOf{d.Gen, d.List})
		if err != nil {
			return err
		}
		first := []any{s.list(resource), list}
		for id, balance := range d.Accounts {
			first = append(first, s.account(resource, id), balance)
		}
		return s.client.MSet(ctx, first...).Err()
	},
	Open: func(ctx context.Context, p Places, guarded bool) (Store, error) { return openRedis(ctx, p, guarded) },
}

func openRedis(ctx context.Context, p Places, guarded bool) (*redisStore, error) {
	s := &redisStore{marks: marks[*redisguard.Guard]{guarded: guarded}}
	s.client = redis.NewClient(&redis.Options{Addr: p.Redis, DialTimeout: 2 * time.Second, Dialer: s.sent.dial, ReadTimeout: 2 * time.Second, WriteTimeout: 10 * time.Second})
	var err error
	if s.g, err = redisguard.New(ctx, s.client, nil); err != nil {
		return nil, errors.Join(err, s.client.Close())
	}
	return s, nil
}

type redisStore struct {
	marks[*redisguard.Guard]
	sent   halfway
	client *redis.Client
}

// redisWrite changes the list, the journal and two accounts, in one atomic step.
var redisWrite = redis.NewScript(`
redis.call('SET', KEYS[1], ARGV[1])
redis.call('RPUSH', KEYS[2], ARGV[2])
redis.call('DECRBY', KEYS[3], ARGV[3])
redis.call('INCRBY', KEYS[4], ARGV[3])
return 1`)

func (s *redisStore) list(resource string) string    { return s.g.Key(resource, "list") }
func (s *redisStore) journal(resource string) string { return s.g.Key(resource, "journal") }
func (s *redisStore) account(resource string, id int) string {
	return s.g.Key(resource, "account-"+strconv.Itoa(id))
}

func (s *redisStore) Read(ctx context.Context, resource string) (d history.Doc, err error) {
	keys := []string{s.list(resource)}
	for id := range d.Accounts {
		keys = append(keys, s.account(resource, id))
	}
	found, err := s.client.MGet(ctx, keys...).Result()
	if err != nil {
		return d, err
	}
	for i, v := range found {
		text, ok := v.(string)
		if !ok {
			return d, fmt.Errorf("store: redis: the key %s is gone", keys[i])
		}
		if i == 0 {
			var l listOf
			if err := json.Unmarshal([]byte(text), &l); err != nil {
				return d, err
			}
			d.Gen, d.List = l.Gen, l.List
		} else if d.Accounts[i-1], err = strconv.Atoi(text); err != nil {
			return d, err
		}
	}
	return d, nil
}

// listOf is the part of a Doc that storages with several keys have under one.
type listOf struct {
	Gen  int      `json:"gen"`
	List []string `json:"list"`
}

func (s *redisStore) Journal(ctx context.Context, resource string) ([]string, error) {
	ops, err := s.client.LRange(ctx, s.journal(resource), 0, -1).Result()
	return append([]string{}, ops...), err
}

func (s *redisStore) Write(ctx context.Context, resource string, tok guard.Token, w Write) error {
	list, err := json.Marshal(listOf{w.Doc.Gen, w.Doc.List})
	if err != nil {
		return err
	}
	c := w.Change
	keys := []string{s.list(resource), s.journal(resource), s.account(resource, c.From), s.account(resource, c.To)}
	args := []any{list, w.op(), c.Amount}
	defer s.sent.expect(w)()
	if s.guarded {
		return s.g.Run(ctx, resource, tok, redisWrite, keys, args...).Err()
	}
	return unguarded(redisWrite.Run(ctx, s.client, keys, args...).Err())
}

func (s *redisStore) Close() error { return s.client.Close() }
