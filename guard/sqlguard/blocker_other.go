//go:build !linux

package sqlguard

// writers: only Linux tells who holds a lock without opening the file, which would drop SQLite's own.
func writers(...string) string { return "" }
