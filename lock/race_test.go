//go:build race

package lock_test

// The race detector makes client and server ten times slower.
const raceDetector = true
