package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// site is etcd and its clients.
type site struct {
	server    *server
	admin     *clientv3.Client // past the proxies
	clients   []*clientv3.Client
	compacted int64 // the last revision
}

func openSite(clients int) (_ *site, err error) {
	s := &site{}
	if s.server, err = startServer(clients); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.admin, err = newClient(s.server.Etcd); err != nil {
		return nil, err
	}
	for _, endpoint := range s.server.Proxies {
		c, err := newClient(endpoint)
		if err != nil {
			return nil, err
		}
		s.clients = append(s.clients, c)
	}
	return s, nil
}

func newClient(endpoint string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second,
		DialKeepAliveTime: 5 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		Logger: zap.NewNop(), // it warns of every connection that is cut
	})
}

func (s *site) close() error {
	var errs []error
	for _, c := range append(s.clients, s.admin) {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(append(errs, s.server.stop())...)
}

// hasEpoch tells whether a session's own key is there, see crew.prime.
func (s *site) hasEpoch(ctx context.Context, id clientv3.LeaseID) (bool, error) {
	resp, err := s.admin.Get(ctx, fmt.Sprintf("%s%%epoch/%x", namespace, int64(id)), clientv3.WithCountOnly())
	return err == nil && resp.Count > 0, err
}
