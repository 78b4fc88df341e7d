package tree

import "iter"

// Marks yields the position of each brace, bracket, comma and colon outside of strings, in order.
// It accepts any bytes, so it can judge a document before it is decoded; in malformed JSON, it may
// mistake a part of a string for structure, or structure for a part of a string.
func Marks(data []byte) iter.Seq2[int, byte] {
	return func(yield func(int, byte) bool) {
		for i := 0; i < len(data); i++ {
			switch b := data[i]; b {
			case '{', '}', '[', ']', ',', ':':
				if !yield(i, b) {
					return
				}
			case '"':
				i = endOfString(data, i+1)
			}
		}
	}
}

// endOfString returns the position of the quote that ends the string whose text begins at i, or
// len(data).
func endOfString(data []byte, i int) int {
	for {
		switch i = plainUntil(data, i); {
		case i >= len(data):
			return len(data)
		case data[i] == '"':
			return i
		case data[i] == '\\':
			i += 2
		default:
			i++
		}
	}
}
