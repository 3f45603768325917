package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// The version of a key that is not there. Versions begin with 1.
const absent = 0

// A key and a version of it.
type record struct {
	key     int
	version uint32
}

// One operation, which takes effect at one moment between its begin and its end.
type operation struct {
	begin, end int64
	reads      []record
	writes     []record
	line       string
}

// Operations in the order of their beginnings, on the keys below a number; in the beginning none is there.
type history struct {
	keys       int
	operations []operation
}

// A history, or a piece of one, that begins with a known state.
type part struct {
	start      *state
	operations []operation
}

func readFile(path string) (*history, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return read(file)
}

func read(from io.Reader) (*history, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 64<<20)
	next := func() string {
		if lines.Scan() {
			return lines.Text()
		}
		return ""
	}
	if first := next(); first != "evendb-history 1" {
		return nil, fmt.Errorf("the first line is %q", first)
	}
	var history history
	if _, err := fmt.Sscanf(next(), "keys %d", &history.keys); err != nil || history.keys < 1 {
		return nil, fmt.Errorf("the second line does not say how many keys there are")
	}
	moments := map[int64]bool{}
	written := map[record]bool{}
	for number := 3; lines.Scan(); number++ {
		operation, err := parse(lines.Text(), history.keys)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		before := len(history.operations) - 1
		if before >= 0 && history.operations[before].begin >= operation.begin {
			return nil, fmt.Errorf("line %d: it is not sorted", number)
		}
		if moments[operation.begin] || moments[operation.end] {
			return nil, fmt.Errorf("line %d: a moment is used twice", number)
		}
		moments[operation.begin], moments[operation.end] = true, true
		for _, write := range operation.writes {
			if write.version != absent && written[write] {
				return nil, fmt.Errorf("line %d: version %d of key %d is written twice", number, write.version, write.key)
			}
			written[write] = true
		}
		history.operations = append(history.operations, operation)
	}
	return &history, lines.Err()
}

func parse(line string, keys int) (operation, error) {
	words := strings.Fields(line)
	if len(words) < 3 {
		return operation{}, fmt.Errorf("no operation: %q", line)
	}
	begin, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		return operation{}, err
	}
	end, err := strconv.ParseInt(words[1], 10, 64)
	if err != nil {
		return operation{}, err
	}
	if begin >= end {
		return operation{}, fmt.Errorf("it ends before it begins: %q", line)
	}
	parsed := operation{begin: begin, end: end, line: line}
	for _, word := range words[2:] {
		records, err := parseRecords(word[1:], keys)
		switch {
		case err != nil:
			return operation{}, fmt.Errorf("%q: %w", word, err)
		case word[0] == 'r':
			parsed.reads = append(parsed.reads, records...)
		case word[0] == 'w':
			parsed.writes = append(parsed.writes, records...)
		default:
			return operation{}, fmt.Errorf("%q is neither a read nor a write", word)
		}
	}
	return parsed, nil
}

// Parses `7=1,-,2`: versions of the keys 7, 8 and 9, of which 8 is not there.
func parseRecords(text string, keys int) ([]record, error) {
	first, list, found := strings.Cut(text, "=")
	key, err := strconv.Atoi(first)
	if !found || err != nil {
		return nil, fmt.Errorf("no key and versions")
	}
	var records []record
	for _, version := range strings.Split(list, ",") {
		if key < 0 || key >= keys {
			return nil, fmt.Errorf("there is no key %d", key)
		}
		record := record{key: key, version: absent}
		if version != "-" {
			number, err := strconv.ParseUint(version, 10, 32)
			if err != nil || number == absent {
				return nil, fmt.Errorf("%q is no version", version)
			}
			record.version = uint32(number)
		}
		records = append(records, record)
		key++
	}
	return records, nil
}

// Cuts the history behind each operation that reads every key while no other runs. Such a read fixes the state, so that the
// history is linearizable exactly if each part is: the read ends its part, and tells the state with which the next one begins.
func (h *history) parts() []part {
	var parts []part
	start := newState(h.keys)
	from := 0
	var latest int64 = -1
	for at, operation := range h.operations {
		isAlone := latest < operation.begin && (at+1 == len(h.operations) || operation.end < h.operations[at+1].begin)
		latest = max(latest, operation.end)
		if isAlone && operation.readsAll(h.keys) {
			parts = append(parts, part{start, h.operations[from : at+1]})
			start = newState(h.keys).with(operation.reads)
			from = at + 1
		}
	}
	if from < len(h.operations) {
		parts = append(parts, part{start, h.operations[from:]})
	}
	return parts
}

func (o *operation) readsAll(keys int) bool {
	if len(o.reads) != keys || len(o.writes) > 0 {
		return false
	}
	for at, read := range o.reads {
		if read.key != at {
			return false
		}
	}
	return true
}

// How many operations ran beside another one.
func (h *history) beside() int {
	count := 0
	var latest int64 = -1
	for at, operation := range h.operations {
		if operation.begin < latest || at+1 < len(h.operations) && h.operations[at+1].begin < operation.end {
			count++
		}
		latest = max(latest, operation.end)
	}
	return count
}
