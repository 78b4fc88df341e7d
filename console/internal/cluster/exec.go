package cluster

import (
	"context"
	"net/url"

	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/tools/remotecommand"
)

// Exec runs a command in a container of a pod until it ends or ctx does. An error of type
// exec.CodeExitError has the command's exit code.
func (c *Cluster) Exec(ctx context.Context, namespace, pod, container string, command []string,
	streams remotecommand.StreamOptions) error {
	query := url.Values{"command": command, "stdin": {"true"}, "stdout": {"true"}, "tty": {"true"}}
	if container != "" {
		query.Set("container", container)
	}
	pods := Kind{Version: "v1", Resource: "pods", Namespaced: true}
	target, err := c.target(Request{Path: pods.Path(namespace, pod, "exec"), Query: query})
	if err != nil {
		return err
	}
	// as kubectl does: WebSockets, or SPDY for older servers
	sockets, err := remotecommand.NewWebSocketExecutor(c.config, "GET", target.String())
	if err != nil {
		return err
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.config, "POST", target)
	if err != nil {
		return err
	}
	executor, err := remotecommand.NewFallbackExecutor(sockets, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, streams)
}
