package etcdtest

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// process is a member that is a program of its own.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only when it has ended already
	<-p.exited
}

// startProcess runs Options.Program and returns when it serves clients.
func (m *Member) startProcess(ctx context.Context) error {
	p := &process{cmd: exec.Command(m.opts.Program, m.flags()...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = m.cluster.log, m.cluster.log
	p.cmd.SysProcAttr = dieWithParent()
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("etcdtest: starting member %s: %w", m.name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in the log
		close(p.exited)
	}()
	if err := m.awaitServing(ctx, p); err != nil {
		p.kill()
		return fmt.Errorf("etcdtest: member %s (%s) is not ready: %w\n%s", m.name, m.opts.Program, err, m.cluster.Log())
	}
	m.proxy.Heal()
	m.mu.Lock()
	m.proc = p
	m.mu.Unlock()
	return nil
}

func (m *Member) flags() []string {
	tick := m.opts.Tick.Milliseconds()
	flags := []string{
		"--name=" + m.name,
		"--data-dir=" + m.dir,
		"--initial-cluster=" + m.initial,
		"--listen-peer-urls=" + m.peer.String(),
		"--initial-advertise-peer-urls=" + m.proxy.Endpoint(),
		"--listen-client-urls=" + m.client.String(),
		"--advertise-client-urls=" + m.client.String(),
		"--heartbeat-interval=" + strconv.FormatInt(tick, 10),
		"--election-timeout=" + strconv.FormatInt(10*tick, 10),
		"--auth-token-ttl=" + strconv.Itoa(int(m.opts.AuthTokenTTL.Seconds())),
		"--bcrypt-cost=4",
		"--logger=zap",
		"--log-level=warn",
	}
	if tls := m.cluster.certs; tls != nil {
		flags = append(flags, "--client-cert-auth", "--trusted-ca-file="+tls.CAFile, "--cert-file="+tls.serverCert, "--key-file="+tls.serverKey)
	}
	return flags
}

// awaitServing asks for the status, which needs no login, until there is a leader.
func (m *Member) awaitServing(ctx context.Context, p *process) error {
	creds := insecure.NewCredentials()
	if m.cluster.certs != nil {
		creds = credentials.NewTLS(m.cluster.certs.ClientConfig())
	}
	conn, err := grpc.NewClient(m.client.Host, grpc.WithTransportCredentials(creds))
	if err != nil {
		return err
	}
	defer conn.Close()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		// A call on a connection that has failed would wait out gRPC's pause before it dials again.
		conn.ResetConnectBackoff()
		resp, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{})
		if err == nil && resp.Leader != 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last: %v)", context.Cause(ctx), err)
		case <-p.exited:
			if strings.Contains(m.cluster.Log(), "address already in use") {
				return fmt.Errorf("it ended: %w", syscall.EADDRINUSE)
			}
			return fmt.Errorf("it ended: %v", p.cmd.ProcessState)
		case <-tick.C:
		}
	}
}
