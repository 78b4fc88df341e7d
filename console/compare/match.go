package compare

// maxAlign is the maximum product of the lengths of two lists for which match computes a longest
// common subsequence. It pairs the items of longer lists by their position.
const maxAlign = 4 << 20

// matched is a pair of items of two lists, by index; -1: the item has no counterpart.
type matched struct {
	a, b  int
	equal bool
}

// match pairs the items of two lists. It pairs the equal items of a longest common subsequence, and
// then the items between them, in order.
func match(a, b []string) []matched {
	next := func(i, j int) bool { return true } // whether to pair two equal items
	var common [][]int32
	if (len(a)+1)*(len(b)+1) <= maxAlign {
		common = make([][]int32, len(a)+1)
		for i := len(a); i >= 0; i-- {
			common[i] = make([]int32, len(b)+1)
			for j := len(b) - 1; j >= 0 && i < len(a); j-- {
				if a[i] == b[j] {
					common[i][j] = common[i+1][j+1] + 1
				} else {
					common[i][j] = max(common[i+1][j], common[i][j+1])
				}
			}
		}
		next = func(i, j int) bool { return common[i][j] == common[i+1][j+1]+1 }
	}
	var pairs []matched
	var onlyA, onlyB []int
	flush := func() {
		for len(onlyA) > 0 || len(onlyB) > 0 {
			m := matched{a: -1, b: -1}
			if len(onlyA) > 0 {
				m.a, onlyA = onlyA[0], onlyA[1:]
			}
			if len(onlyB) > 0 {
				m.b, onlyB = onlyB[0], onlyB[1:]
			}
			pairs = append(pairs, m)
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j] && next(i, j):
			flush()
			pairs = append(pairs, matched{i, j, true})
			i, j = i+1, j+1
		case i == len(a):
			onlyB = append(onlyB, j)
			j++
		case j == len(b):
			onlyA = append(onlyA, i)
			i++
		case common == nil:
			onlyA, onlyB = append(onlyA, i), append(onlyB, j)
			i, j = i+1, j+1
		case common[i+1][j] >= common[i][j+1]:
			onlyA = append(onlyA, i)
			i++
		default:
			onlyB = append(onlyB, j)
			j++
		}
	}
	flush()
	return pairs
}
