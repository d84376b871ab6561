package redisguard

import (
	"crypto/sha1" // how Redis names scripts
	_ "embed"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
)

//go:embed guard.lua
var guardSource string

//go:embed set.lua
var setSource string

//go:embed del.lua
var delSource string

// A write is a function. That of the user gets keys and arguments that are its own, and begins on the first line, so that
// line numbers in errors are those of its source. Those of the guard return the error they got.
const head, userHead, tail = "local function fencedlock_write() ", "local function fencedlock_write(KEYS, ARGV, ...) ", "\nend\n"

var (
	setProgram  = newProgram(head + setSource + tail + "local fencedlock_single = true\n" + guardSource)
	delProgram  = newProgram(head + delSource + tail + "local fencedlock_single = true\n" + guardSource)
	sealProgram = newProgram("local fencedlock_write, fencedlock_single\n" + guardSource)
)

// program is a script that Redis runs.
type program struct{ source, sha string }

func newProgram(source string) *program {
	sum := sha1.Sum([]byte(source))
	return &program{source, hex.EncodeToString(sum[:])}
}

// userProgram puts the guard around a script of the user.
func userProgram(source string) (*program, error) {
	if strings.HasPrefix(source, "#!") {
		return nil, errors.New("redisguard: Run: the script begins with #!, which cannot be guarded; leave that line out")
	}
	return newProgram(userHead + source + tail + "local fencedlock_single = false\n" + guardSource), nil
}

// maxPrograms bounds what a program that makes new scripts all the time keeps in memory.
const maxPrograms = 256

// programs keeps the guarded form of scripts.
type programs struct {
	mu sync.Mutex
	m  map[string]*program // by source; guarded by mu
}

func (p *programs) of(source string) (*program, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if prog, ok := p.m[source]; ok {
		return prog, nil
	}
	prog, err := userProgram(source)
	if err != nil {
		return nil, err
	}
	if p.m == nil || len(p.m) >= maxPrograms {
		p.m = make(map[string]*program)
	}
	p.m[source] = prog
	return prog, nil
}
