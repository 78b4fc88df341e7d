// Package merge is a line-based three-way merge.
//
//	text, conflicts := merge.Merge(base, ours, theirs)
//
// If both sides changed the same lines differently, the text contains both, between conflict
// markers as git writes them.
package merge

import (
	"slices"
	"strings"
)

// Conflict markers.
const (
	begin  = "<<<<<<< yours\n"
	middle = "=======\n"
	end    = ">>>>>>> template\n"
)

// Merge returns the merged text and the number of conflicts in it.
func Merge(base, ours, theirs []byte) (merged []byte, conflicts int) {
	b, o, t := lines(base), lines(ours), lines(theirs)
	inOurs, inTheirs := match(b, o), match(b, t)
	var out strings.Builder
	atB, atO, atT := 0, 0, 0
	for {
		// A changed region ends before the next base line that both sides kept.
		next := atB
		for next < len(b) && (inOurs[next] < 0 || inTheirs[next] < 0) {
			next++
		}
		endO, endT := len(o), len(t)
		if next < len(b) {
			endO, endT = inOurs[next], inTheirs[next]
		}
		was, mine, new := b[atB:next], o[atO:endO], t[atT:endT]
		switch {
		case slices.Equal(mine, new), slices.Equal(was, new):
			write(&out, mine)
		case slices.Equal(was, mine):
			write(&out, new)
		default:
			conflicts++
			out.WriteString(begin)
			write(&out, mine)
			out.WriteString(middle)
			write(&out, new)
			out.WriteString(end)
		}
		if next == len(b) {
			return []byte(out.String()), conflicts
		}
		out.WriteString(o[endO])
		atB, atO, atT = next+1, endO+1, endT+1
	}
}

func lines(text []byte) []string { return slices.Collect(strings.Lines(string(text))) }

func write(out *strings.Builder, lines []string) {
	for _, l := range lines {
		out.WriteString(l)
	}
	if n := len(lines); n > 0 && !strings.HasSuffix(lines[n-1], "\n") {
		out.WriteString("\n")
	}
}

// match returns, for each line of a, the index of its line in b or -1: a longest common
// subsequence.
func match(a, b []string) []int {
	matched := make([]int, len(a))
	for i := range matched {
		matched[i] = -1
	}
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		matched[start] = start
		start++
	}
	endA, endB := len(a), len(b)
	for endA > start && endB > start && a[endA-1] == b[endB-1] {
		endA, endB = endA-1, endB-1
		matched[endA] = endB
	}
	// common[i][j] is the length of the longest common subsequence of a[start+i:endA] and
	// b[start+j:endB].
	n, m := endA-start, endB-start
	common := make([][]int32, n+1)
	for i := range common {
		common[i] = make([]int32, m+1)
	}
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if a[start+i] == b[start+j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	for i, j := 0, 0; i < n && j < m; {
		switch {
		case a[start+i] == b[start+j]:
			matched[start+i] = start + j
			i, j = i+1, j+1
		case common[i+1][j] >= common[i][j+1]:
			i++
		default:
			j++
		}
	}
	return matched
}
