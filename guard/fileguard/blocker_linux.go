package fileguard

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// blocker tells which process has the lock on a file, from the list that Linux keeps; "somebody" if the list does not say.
// It compares the device as well, which on some file systems (btrfs, overlays) the list numbers otherwise: no process is
// better than the wrong one, since somebody will kill it.
func blocker(path string) string {
	const nobodyKnown = "somebody"
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return nobodyKnown
	}
	info, err := os.Stat(path)
	if err != nil {
		return nobodyKnown
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nobodyKnown
	}
	dev := uint64(stat.Dev)
	major, minor := dev>>8&0xfff|dev>>32&^0xfff, dev&0xff|dev>>12&^0xff // as makedev(3) packs them
	file := fmt.Sprintf("%02x:%02x:%d", major, minor, stat.Ino)
	for line := range strings.Lines(string(locks)) {
		// 1: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF
		field := strings.Fields(line)
		if len(field) < 6 || field[1] != "FLOCK" || field[5] != file {
			continue
		}
		switch pid := field[4]; pid {
		case "0", "-1": // of another container
		case fmt.Sprint(os.Getpid()):
			return "this process"
		default:
			return "process " + pid
		}
	}
	return nobodyKnown
}
