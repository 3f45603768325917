package main

import (
	"runtime"
	"sort"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

const pageKeys = 64

type page [pageKeys]uint32

// The versions of all keys. It is never changed; states share the pages in which they do not differ.
type state struct {
	pages []*page
	hash  uint64
}

func newState(keys int) *state {
	pages := make([]*page, (keys+pageKeys-1)/pageKeys)
	empty := new(page)
	for at := range pages {
		pages[at] = empty
	}
	return &state{pages: pages}
}

func (s *state) version(key int) uint32 {
	return s.pages[key/pageKeys][key%pageKeys]
}

// The state after these writes, which come in their order.
func (s *state) with(writes []record) *state {
	if len(writes) == 0 {
		return s
	}
	changed := &state{pages: append([]*page(nil), s.pages...), hash: s.hash}
	for _, write := range writes {
		at := write.key / pageKeys
		if changed.pages[at] == s.pages[at] {
			copied := *s.pages[at]
			changed.pages[at] = &copied
		}
		place := &changed.pages[at][write.key%pageKeys]
		changed.hash ^= mixed(write.key, *place) ^ mixed(write.key, write.version)
		*place = write.version
	}
	return changed
}

func (s *state) equal(other *state) bool {
	if s.hash != other.hash {
		return false
	}
	for at, page := range s.pages {
		if page != other.pages[at] && *page != *other.pages[at] {
			return false
		}
	}
	return true
}

// A number of a key and its version; a state's hash is all of them.
func mixed(key int, version uint32) uint64 {
	if version == absent {
		return 0
	}
	x := uint64(key)<<32 | uint64(version)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// What a map does: an operation reads what there is, and then writes, all at one moment.
func (p *part) model() porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return p.start },
		Step: func(before, input, _ interface{}) (bool, interface{}) {
			operation, now := input.(*operation), before.(*state)
			for _, read := range operation.reads {
				if now.version(read.key) != read.version {
					return false, now
				}
			}
			return true, now.with(operation.writes)
		},
		Equal: func(one, other interface{}) bool { return one.(*state).equal(other.(*state)) },
		Hash:  func(of interface{}) uint64 { return of.(*state).hash },
	}
}

func (p *part) history() []porcupine.Operation {
	history := make([]porcupine.Operation, len(p.operations))
	for at := range p.operations {
		operation := &p.operations[at]
		history[at] = porcupine.Operation{Input: operation, Call: operation.begin, Return: operation.end}
	}
	return history
}

// Checks all parts, as many at a time as there are processors. The verdict is the worst of them, with the first part that has it.
func checkParts(parts []part, timeout time.Duration) (porcupine.CheckResult, *part) {
	results := make([]porcupine.CheckResult, len(parts))
	places := make(chan struct{}, runtime.NumCPU())
	var all sync.WaitGroup
	for at := range parts {
		places <- struct{}{}
		all.Add(1)
		go func() {
			results[at] = porcupine.CheckOperationsTimeout(parts[at].model(), parts[at].history(), timeout)
			<-places
			all.Done()
		}()
	}
	all.Wait()
	for _, verdict := range []porcupine.CheckResult{porcupine.Illegal, porcupine.Unknown} {
		for at, result := range results {
			if result == verdict {
				return verdict, &parts[at]
			}
		}
	}
	return porcupine.Ok, nil
}

// The first operations, by their ends, that the longest order which porcupine found does not have.
func (p *part) stuck(timeout time.Duration) []string {
	_, info := porcupine.CheckOperationsVerbose(p.model(), p.history(), timeout)
	var longest []int
	for _, order := range info.PartialLinearizations()[0] {
		if len(order) > len(longest) {
			longest = order
		}
	}
	ordered := map[int]bool{}
	for _, at := range longest {
		ordered[at] = true
	}
	var left []operation
	for at, operation := range p.operations {
		if !ordered[at] {
			left = append(left, operation)
		}
	}
	sort.Slice(left, func(i, j int) bool { return left[i].end < left[j].end })
	var lines []string
	for _, operation := range left[:min(len(left), 5)] {
		line := operation.line
		if len(line) > 200 {
			line = line[:200] + "..."
		}
		lines = append(lines, line)
	}
	return lines
}
