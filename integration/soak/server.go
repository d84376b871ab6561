package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver/api/etcdhttp"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

// serveCommand is the first argument of the process that has etcd, so that its memory and goroutines are not counted.
const serveCommand = "serve-etcd"

// addresses is what that process says when it is ready.
type addresses struct {
	Etcd    string   // past the proxies
	Proxies []string // one for each client
	Control string   // /metrics, /memory, and /cut/0 for the first proxy
}

// serving is true when this process was started to have etcd, and did.
func serving() bool {
	if len(os.Args) != 3 || os.Args[1] != serveCommand {
		return false
	}
	if err := serve(os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "soak: etcd's process: %v\n", err)
		os.Exit(1)
	}
	return true
}

// serve runs etcd and the proxies before it until standard input ends, as it does when the parent has gone.
func serve(number string) error {
	signal.Ignore(os.Interrupt) // the parent gets it too, and still wants to close its sessions
	clients, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cluster, err := etcdtest.New(ctx, nil)
	if err != nil {
		return err
	}
	defer cluster.Close()
	mux := http.NewServeMux()
	etcdhttp.HandleMetrics(mux)
	mux.HandleFunc("/memory", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(measure()) })
	a := addresses{Etcd: cluster.Endpoints()[0]}
	for i := range clients {
		p, err := etcdtest.NewProxy(a.Etcd)
		if err != nil {
			return err
		}
		defer p.Close()
		a.Proxies = append(a.Proxies, p.Endpoint())
		mux.HandleFunc(fmt.Sprintf("/cut/%d", i), func(http.ResponseWriter, *http.Request) { p.Cut() })
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	control := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	defer control.Close()
	go func() { _ = control.Serve(l) }() // ends with Close
	a.Control = "http://" + l.Addr().String()
	if err := json.NewEncoder(os.Stdout).Encode(a); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// server is this process's side of the other one.
type server struct {
	addresses
	cmd   *exec.Cmd
	stdin io.Closer
	http  *http.Client
}

func startServer(clients int) (_ *server, err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// A connection that is kept would be two goroutines at times.
	s := &server{cmd: exec.Command(exe, serveCommand, strconv.Itoa(clients)),
		http: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}}
	s.cmd.Stderr = os.Stderr
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	if err := json.NewDecoder(stdout).Decode(&s.addresses); err != nil {
		return nil, fmt.Errorf("etcd's process is not ready: %w; %w", err, s.stop())
	}
	return s, nil
}

func (s *server) stop() error {
	s.stdin.Close()
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("etcd's process: %w", err)
	}
	return nil
}

// ask hands the answer of the other process to read.
func (s *server) ask(ctx context.Context, path string, read func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Control+path, nil)
	if err != nil {
		return err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	return read(resp.Body)
}

// cut resets the connections of a client.
func (s *server) cut(ctx context.Context, client int) error {
	return s.ask(ctx, fmt.Sprintf("/cut/%d", client), func(io.Reader) error { return nil })
}

func (s *server) memory(ctx context.Context) (m memory, err error) {
	err = s.ask(ctx, "/memory", func(r io.Reader) error { return json.NewDecoder(r).Decode(&m) })
	return m, err
}
