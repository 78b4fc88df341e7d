//go:build !unix

package exchange

import "net"

// isObservable says whether isQuiet can tell.
func isObservable(net.Conn) bool { return false }

func isQuiet(net.Conn) bool { return false }
