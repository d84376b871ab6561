//go:build race

package integration

// The race detector costs memory and time.
const raceDetector = true
