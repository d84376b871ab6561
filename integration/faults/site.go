//go:build unix

package main

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/integration/faults/internal/store"
	"github.com/fencedlock/fencedlock/internal/aztest"
	"github.com/fencedlock/fencedlock/internal/commitproxy"
	"github.com/fencedlock/fencedlock/internal/gcstest"
	"github.com/fencedlock/fencedlock/internal/httpfault"
	"github.com/fencedlock/fencedlock/internal/mariadbtest"
	"github.com/fencedlock/fencedlock/internal/pgtest"
	"github.com/fencedlock/fencedlock/internal/redistest"
	"github.com/fencedlock/fencedlock/internal/s3test"
)

// members is the size of the cluster.
const members = 3

// site is everything that stands: etcd and the storages, the latter behind proxies.
type site struct {
	etcd     *etcdtest.Cluster
	client   *clientv3.Client // past all proxies
	places   store.Places     // as workers see them
	direct   store.Places     // past all proxies
	storages []storage        // that can be hurt by themselves: SQLite and files have neither a server nor a network
}

// storage is a storage's server.
type storage struct {
	name     string
	resource string          // and its lock
	proxy    *etcdtest.Proxy // nil: its network cannot be hurt
	restart  func() error    // nil: it cannot be restarted
	strike   blows
}

// openSite starts everything. What cannot be started fails the run.
func openSite(s *stage, guarded bool) *site {
	x := &site{}
	var pg *pgtest.Server
	var maria *mariadbtest.Server
	var red *redistest.Server
	var s3 *s3test.Server
	var gcs *gcstest.Server
	var azure *aztest.Server
	var wg sync.WaitGroup
	for _, start := range []func(){
		func() { x.etcd = etcdtest.Start(s, &etcdtest.Options{Members: members}) },
		func() { pg = pgtest.Start(s, false) },
		func() { maria = mariadbtest.Start(s, false) },
		func() { red = redistest.Start(s, "--appendonly", "yes", "--appendfsync", "always") },
		func() { s3 = s3test.Start(s) },
		func() { gcs = gcstest.Start(s, gcstest.Files) },
		func() { azure = aztest.Start(s, aztest.Files) },
	} {
		wg.Go(start)
	}
	wg.Wait()
	if s.Failed() {
		s.FailNow()
	}
	x.client = x.etcd.Client(s)
	dir := s.TempDir()
	files := filepath.Join(dir, "files")
	mustMkdir(s, files)
	sqlite := func(name string) string {
		return "file:" + filepath.Join(dir, name) + "?_txlock=immediate&_pragma=busy_timeout(8000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)"
	}
	d := store.Places{SQLite: sqlite("ledger.db"), Service: sqlite("service.db"), Files: files, Etcd: x.etcd.Endpoints()}

	d.Postgres = pg.Database(s)
	d.Pgx = d.Postgres
	d.MariaDB = maria.Database(s) + "?timeout=5s&readTimeout=8s"
	d.Redis = red.Addr()
	d.S3, d.GCS, d.Azure = s3.Address(), gcs.Address(), azure.Address()
	// The service's tables must be there before it is.
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	for _, k := range store.Kinds() {
		if err := k.Init(ctx, d, k.Resource()); err != nil {
			s.Fatalf("%s: %v", k.Name, err)
		}
	}
	service := startService(s, d, guarded)
	d = service.cfg.Places
	x.direct, x.places = d, d

	// Each lock has proxies of its own, so that a holder that is about to write is the next to commit there.
	pgCommits, dsn := pgtest.NewProxy(s, d.Postgres)
	x.places.Postgres = dsn
	pgxCommits, dsn := pgtest.NewProxy(s, d.Pgx)
	x.places.Pgx = dsn
	mariaCommits, dsn := mariadbtest.NewProxy(s, d.MariaDB)
	x.places.MariaDB = dsn
	redisScripts := redistest.NewProxy(s, d.Redis)
	x.places.Redis = redisScripts.Addr
	toS3 := httpfault.New(s, d.S3, httpfault.KeepHost)
	x.places.S3 = toS3.Address
	toGCS := httpfault.New(s, d.GCS)
	x.places.GCS = toGCS.Address
	toAzure := httpfault.New(s, d.Azure)
	x.places.Azure = toAzure.Address
	toHTTP := httpfault.New(s, strings.TrimPrefix(d.HTTP, "http://"))
	x.places.HTTP = "http://" + toHTTP.Address
	toGRPC, address := commitproxy.New(s, d.GRPC, grpcWrites(store.WriteInJSON))
	x.places.GRPC = address
	x.places.Etcd = nil
	var toEtcd []*commitproxy.Proxy
	for _, e := range x.etcd.Endpoints() {
		p, address := commitproxy.New(s, strings.TrimPrefix(e, "http://"), grpcWrites(store.WriteInTxn))
		toEtcd, x.places.Etcd = append(toEtcd, p), append(x.places.Etcd, "http://"+address)
	}

	through := func(address string) (*etcdtest.Proxy, string) {
		p := etcdtest.StartProxy(s, address)
		return p, p.Addr()
	}
	replace := func(dsn *string, address string) *etcdtest.Proxy {
		p, addr := through(address)
		if !strings.Contains(*dsn, address) {
			s.Fatalf("%q is not in %q", address, *dsn)
		}
		*dsn = strings.Replace(*dsn, address, addr, 1)
		return p
	}
	restartPG := func() error { pg.Kill(); return pg.Up() }
	x.storages = []storage{
		{"postgres", "postgres-ledger", replace(&x.places.Postgres, hostOf(x.places.Postgres)), restartPG, commits(pgCommits)},
		{"pgx", "pgx-ledger", replace(&x.places.Pgx, hostOf(x.places.Pgx)), restartPG, commits(pgxCommits)},
		{"mariadb", "mariadb-ledger", replace(&x.places.MariaDB, hostOf(x.places.MariaDB)),
			func() error { maria.Kill(); return maria.Up() }, commits(mariaCommits)},
		{"redis", "redis-ledger", replace(&x.places.Redis, x.places.Redis),
			func() error { red.Kill(); return red.Up() }, commits(redisScripts.Proxy)},
		{"s3", "s3-ledger", replace(&x.places.S3, x.places.S3), s3.Restart, uploads(s, toS3, s3test.Upload)},
		// These two do not survive to be killed in a write, as the services that they stand for do.
		{"gcs", "gcs-ledger", replace(&x.places.GCS, x.places.GCS),
			func() error { return toGCS.Alone(gcs.Restart) }, uploads(s, toGCS, gcstest.Upload)},
		{"azure", "azure-ledger", replace(&x.places.Azure, x.places.Azure),
			func() error { return toAzure.Alone(azure.Restart) }, uploads(s, toAzure, aztest.Upload)},
		{"http", "http-ledger", replace(&x.places.HTTP, toHTTP.Address), service.restart, posts(s, toHTTP)},
		{"grpc", "grpc-ledger", replace(&x.places.GRPC, address), service.restart, commits(toGRPC)},
		// Its servers and its network are hurt with those of the locks.
		{"etcd", "etcd-ledger", nil, nil, commits(toEtcd...)},
	}
	return x
}

// hostOf finds host:port in a data source name.
func hostOf(dsn string) string { return regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).FindString(dsn) }
