//go:build unix

package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/fencedlock/internal/daemon"
)

// Group is the name under which a Sentinel of [StartSentinel] knows its primary.
const Group = "group"

// StartSentinel runs a Sentinel for one test that watches the primary alone, takes it for dead after 300 ms of silence, and
// knows its replica when StartSentinel returns.
func StartSentinel(t testing.TB, primary *Server) *Server {
	t.Helper()
	arguments := func(dir string, port int) []string {
		conf := filepath.Join(dir, "sentinel.conf")
		text := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d 1\nsentinel down-after-milliseconds %[1]s 300\n"+
			"sentinel failover-timeout %[1]s 5000\n", Group, primary.Port)
		// Sentinel writes to it, as a user of its own. What cannot be written is its complaint.
		_ = os.WriteFile(conf, []byte(text), 0o600)
		_ = os.Chmod(conf, 0o666)
		return []string{conf, "--sentinel", "--port", strconv.Itoa(port)}
	}
	s := daemon.ForTest(t, func() (*Server, error) { return open("redistest", arguments) })
	c := redis.NewSentinelClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = c.Close() })
	Eventually(t, "Sentinel knows the replica", func() bool {
		replicas, err := c.Replicas(t.Context(), Group).Result()
		return err == nil && len(replicas) > 0 && replicas[0]["flags"] == "slave" && replicas[0]["master-link-status"] == "ok"
	})
	return s
}
