//go:build !unix

package serving

func maxFiles() (n int, ok bool) { return 0, false }
