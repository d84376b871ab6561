package check

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

// porcupineLimit bounds the search in the history of one name.
const porcupineLimit = 60 * time.Second

// judge asks porcupine about the operations on one name.
func judge(check, name string, model porcupine.Model, ops []porcupine.Operation) []Violation {
	result, info := porcupine.CheckOperationsVerbose(model, ops, porcupineLimit)
	if result == porcupine.Ok {
		return nil
	}
	text := "is not linearizable"
	if result == porcupine.Unknown {
		text = fmt.Sprintf("could not be decided within %v", porcupineLimit)
	}
	v := violation(check, name, "the history of %d operations %s", len(ops), text)
	v.Picture = func(path string) error { return porcupine.VisualizePath(model, info, path) }
	return []Violation{v}
}

// lockInput is taking the lock or losing it.
type lockInput struct {
	id    string
	token int64
	take  bool
}

// lockState is who has it, "" for nobody, and the highest token so far.
type lockState struct {
	holder string
	last   int64
}

var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, in := state.(lockState), input.(lockInput)
		if !in.take {
			return s.holder == in.id, lockState{"", s.last}
		}
		return s.holder == "" && (in.token == 0 || in.token > s.last), lockState{in.id, max(s.last, in.token)}
	},
	DescribeOperation: func(input, _ any) string {
		in := input.(lockInput)
		if in.take {
			return fmt.Sprintf("%s takes it: %d", in.id, in.token)
		}
		return in.id + " has it no more"
	},
	DescribeState: func(state any) string { s := state.(lockState); return fmt.Sprintf("%q %d", s.holder, s.last) },
}

// sure is the last moment at which the holder had the lock for certain: that of a look which found it so, unless its clock
// had been set back before, or its key been deleted from outside. Without such a look, it is that of asking.
func (r *run) sure(h *hold) int64 {
	at := h.ask
	away, _ := r.takenAway(h)
	for _, look := range h.looks {
		if look < away && look < r.misled(h, look) {
			at = look
		}
	}
	return at
}

// lockIsLinear: the lock has one holder at a time. A hold ends at some moment between the last time that its holder knew
// to have it and the confirmation of its release; without that, any time later.
func (r *run) lockIsLinear() (found []Violation) {
	for _, name := range r.names {
		clients := make(map[string]int)
		var ops []porcupine.Operation
		for _, h := range r.held(name) {
			c, ok := clients[h.who]
			if !ok {
				c = len(clients)
				clients[h.who] = c
			}
			ops = append(ops, porcupine.Operation{ClientId: c, Input: lockInput{h.id, h.token, true}, Call: h.ask, Return: h.got})
			from, to := r.sure(h), never
			if h.left > 0 {
				to = h.left
			}
			ops = append(ops, porcupine.Operation{ClientId: c, Input: lockInput{h.id, h.token, false}, Call: from, Return: to})
		}
		found = append(found, judge(LockIsLinear, name, lockModel, ops)...)
	}
	return found
}

// registerInput is one operation on a resource.
type registerInput struct {
	kind  history.Kind
	op    string // a write's
	base  string // what was read before
	token int64
}

// registerState is the last write and the mark, as far as it is certain.
type registerState struct {
	last string
	mark int64
}

var registerModel = porcupine.Model{
	Init: func() any { return registerState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, in := state.(registerState), input.(registerInput)
		switch in.kind {
		case history.Read:
			return s.last == in.base, s
		case history.Seal:
			return in.token >= s.mark, registerState{s.last, max(s.mark, in.token)}
		}
		return s.last == in.base && (in.token == 0 || in.token >= s.mark), registerState{in.op, max(s.mark, in.token)}
	},
	DescribeOperation: func(input, _ any) string {
		in := input.(registerInput)
		return fmt.Sprintf("%s %s (on %s) %d", in.kind, in.op, in.base, in.token)
	},
	DescribeState: func(state any) string { s := state.(registerState); return fmt.Sprintf("%s %d", s.last, s.mark) },
}

// registerIsLinear: a guarded resource is a register whose writes replace what their holder has read, in the order of the
// tokens. Of a write whose outcome is unknown the resource itself tells whether it was applied.
func (r *run) registerIsLinear() (found []Violation) {
	for _, name := range r.names {
		there := make(map[string]bool)
		ops, _ := r.applied(name)
		for _, op := range ops {
			there[op] = true
		}
		clients := make(map[string]int)
		var steps []porcupine.Operation
		add := func(who string, in registerInput, call, ret int64) {
			c, ok := clients[who]
			if !ok {
				c = len(clients)
				clients[who] = c
			}
			steps = append(steps, porcupine.Operation{ClientId: c, Input: in, Call: call, Return: ret})
		}
		for _, e := range r.events {
			switch {
			case e.Name != name:
			case e.Kind == history.Seal && e.Outcome == history.Applied:
				add(e.Who, registerInput{kind: e.Kind, token: e.Token}, e.Start, e.T)
			case e.Kind == history.Read && e.Base != nil:
				add(e.Who, registerInput{kind: e.Kind, base: e.Base.Last}, e.Start, e.T)
			}
		}
		for _, w := range r.ops[name] {
			if w.outcome != history.Applied && !there[w.Op] {
				continue
			}
			done := w.done
			if w.outcome != history.Applied {
				done = never // it may have come at any later time
			}
			add(w.Who, registerInput{history.Write, w.Op, w.Base.Last, w.Token}, w.T, done)
		}
		found = append(found, judge(RegisterIsLinear, name, registerModel, steps)...)
	}
	return found
}
