package protobuf

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"kelson.dev/toolchain/loader"
)

// maxNumber is the greatest field number of protobuf.
const maxNumber = 1<<29 - 1

const lockHeader = "# The protobuf numbers of fields without a protobuf tag. Keep this file in version control; do not edit it.\n"

// numbers are the locked numbers, by TYPE.FIELD.
type numbers map[string]int

func parseLock(data []byte) (numbers, error) {
	n := numbers{}
	for i, line := range strings.Split(string(data), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, text, ok := strings.Cut(line, " ")
		number, err := strconv.Atoi(text)
		if !ok || err != nil || number < 1 || number > maxNumber || !strings.Contains(name, ".") {
			return nil, fmt.Errorf("line %d: %q must have the form TYPE.FIELD NUMBER", i+1, line)
		}
		n[name] = number
	}
	return n, nil
}

// bytes returns the lock file, or nil if no numbers are locked.
func (n numbers) bytes() []byte {
	if len(n) == 0 {
		return nil
	}
	var b bytes.Buffer
	b.WriteString(lockHeader)
	for _, name := range slices.Sorted(maps.Keys(n)) {
		fmt.Fprintf(&b, "%s %d\n", name, n[name])
	}
	return b.Bytes()
}

// number assigns numbers to the fields of a message that have none, the locked number or the next
// free one, and sorts the fields by number.
func (g *generator) number(m *message) {
	used := map[int]string{}
	last := 0
	take := func(f *field) {
		if other, twice := used[f.number]; twice {
			g.errs = append(g.errs, loader.Errorf(m.typ.Pos(), "protobuf: %s: fields %s and %s have the number %d",
				m.typ.Name, other, f.goName, f.number))
		}
		used[f.number] = f.goName
	}
	for _, f := range m.fields {
		if f.number > 0 {
			take(f)
			last = max(last, f.number)
		}
	}
	prefix := m.typ.Name + "."
	for name, n := range g.numbers {
		if strings.HasPrefix(name, prefix) {
			last = max(last, n)
		}
	}
	for _, f := range m.fields {
		if f.number > 0 {
			continue
		}
		if f.number = g.numbers[prefix+f.goName]; f.number == 0 {
			if last++; last >= 19000 && last < 20000 {
				last = 20000 // reserved by protobuf
			}
			f.number = last
			g.numbers[prefix+f.goName] = last
		}
		take(f)
	}
	sort.Slice(m.fields, func(i, j int) bool { return m.fields[i].number < m.fields[j].number })
}
