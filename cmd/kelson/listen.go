package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"

	"kelson.dev/kubernetes/redact"
)

// newLog returns the logger of a server: text without the contents of objects.
func newLog(out io.Writer, level slog.Level) *slog.Logger {
	return redact.Logger(slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level})))
}

// warnUnlessLoopback writes to out if other machines may reach a listener, and that every known client may do everything if that is so.
func warnUnlessLoopback(out io.Writer, address net.Addr, allowsAll bool) {
	if tcp, ok := address.(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		return
	}
	fmt.Fprintf(out, "WARNING: listening on %s: other machines may reach this control plane; --bind-address=127.0.0.1 limits it to this one\n", address)
	if allowsAll {
		fmt.Fprintln(out, "WARNING: authorization mode AlwaysAllow: every client that has a credential may do everything")
	}
}
