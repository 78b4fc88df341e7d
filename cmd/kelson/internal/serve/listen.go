package serve

import (
	"fmt"
	"io"
	"log/slog"
	"net"

	"kelson.dev/kubernetes/redact"
)

// NewLog returns the logger of a server. It writes text and redacts the contents of objects.
func NewLog(out io.Writer, level slog.Level) *slog.Logger {
	return redact.Logger(slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level})))
}

// WarnUnlessLoopback writes a warning to out if address is not a loopback address, and another if
// authorization allows every authenticated client everything.
func WarnUnlessLoopback(out io.Writer, address net.Addr, allowsAll bool) {
	if tcp, ok := address.(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		return
	}
	fmt.Fprintf(out, "WARNING: listening on %s: other machines may reach this control plane; use --bind-address=127.0.0.1 to prevent this\n", address)
	if allowsAll {
		fmt.Fprintln(out, "WARNING: authorization mode AlwaysAllow: every client with a valid credential may do everything")
	}
}
