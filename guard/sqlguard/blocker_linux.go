package sqlguard

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// writers tells which processes hold a write lock on one of the files, from the list that Linux keeps. It opens none of
// them: closing one would drop the locks that SQLite holds on it in this process.
func writers(files ...string) string {
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return ""
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			continue // there is no -shm without WAL
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			continue
		}
		for line := range strings.Lines(string(locks)) {
			// 1: POSIX  ADVISORY  WRITE 4711 08:01:1234 120 120
			field := strings.Fields(line)
			if len(field) < 6 || field[3] != "WRITE" || !strings.HasSuffix(field[5], fmt.Sprintf(":%d", stat.Ino)) {
				continue
			}
			if pid := field[4]; pid != "0" && pid != "-1" { // that of another container
				return "process " + pid
			}
		}
	}
	return ""
}
