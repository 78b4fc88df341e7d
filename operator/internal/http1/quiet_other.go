//go:build !unix

package http1

import "net"

// isObservable reports whether isQuiet works.
func isObservable(net.Conn) bool { return false }

func isQuiet(net.Conn) bool { return false }
