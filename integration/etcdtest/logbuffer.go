package etcdtest

import (
	"bytes"
	"strings"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logBuffer keeps the last warnings in memory: a passing test stays quiet, a failing one can show them.
type logBuffer struct {
	mu    sync.Mutex
	lines []string // guarded by mu
	core  zapcore.Core
}

func newLogBuffer() *logBuffer {
	b := &logBuffer{}
	enc := zap.NewDevelopmentEncoderConfig()
	enc.CallerKey, enc.StacktraceKey = "", ""
	b.core = zapcore.NewCore(zapcore.NewConsoleEncoder(enc), zapcore.AddSync(b), zap.WarnLevel)
	return b
}

func (b *logBuffer) logger(name string) *zap.Logger { return zap.New(b.core).Named(name) }

// Write takes one log line, for zap.
func (b *logBuffer) Write(line []byte) (int, error) {
	const keep = 100
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lines) == keep {
		b.lines = append(b.lines[:0], b.lines[1:]...)
	}
	b.lines = append(b.lines, string(bytes.TrimSpace(line)))
	return len(line), nil
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines, "\n")
}
