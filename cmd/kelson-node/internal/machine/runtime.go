//go:build linux

package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// connect returns a client of the CRI at an endpoint. The caller must close the connection.
func connect(endpoint string) (*grpc.ClientConn, runtimeapi.RuntimeServiceClient, error) {
	if !strings.HasPrefix(endpoint, "unix:///") {
		return nil, nil, fmt.Errorf("endpoint %q: must begin with unix:///", endpoint)
	}
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, nil, err
	}
	return conn, runtimeapi.NewRuntimeServiceClient(conn), nil
}

// Ready returns nil when the container runtime at an endpoint is ready, and an error when ctx ends
// first. It ignores that the network is not configured.
func Ready(ctx context.Context, endpoint string) error {
	conn, client, err := connect(endpoint)
	if err != nil {
		return err
	}
	defer conn.Close()
	for {
		// gRPC logs each attempt to dial a socket that does not exist yet.
		if _, err := os.Stat(strings.TrimPrefix(endpoint, "unix://")); err != nil {
			if waitErr := pause(ctx); waitErr != nil {
				return err
			}
			continue
		}
		status, err := client.Status(ctx, &runtimeapi.StatusRequest{}, grpc.WaitForReady(true))
		if err == nil {
			err = errors.New("the runtime reports no readiness")
			for _, c := range status.GetStatus().GetConditions() {
				if c.Type == runtimeapi.RuntimeReady {
					if c.Status {
						return nil
					}
					err = fmt.Errorf("%s: %s", c.Reason, c.Message)
				}
			}
		}
		if pause(ctx) != nil {
			return err
		}
	}
}

// pause waits between two attempts. It returns an error if ctx ends first.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(50 * time.Millisecond):
		return nil
	}
}

// SystemdCgroups reports whether the runtime at an endpoint creates cgroups through systemd.
// kubelet must do the same.
func SystemdCgroups(ctx context.Context, endpoint string) (bool, error) {
	conn, client, err := connect(endpoint)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if cfg, err := client.RuntimeConfig(ctx, &runtimeapi.RuntimeConfigRequest{}); err == nil && cfg.GetLinux() != nil {
		return cfg.GetLinux().GetCgroupDriver() == runtimeapi.CgroupDriver_SYSTEMD, nil
	}
	// Runtimes without RuntimeConfig, such as containerd 1.x.
	status, err := client.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return false, err
	}
	var info struct {
		Containerd struct {
			DefaultRuntimeName string                                      `json:"defaultRuntimeName"`
			Runtimes           map[string]struct{ Options map[string]any } `json:"runtimes"`
		} `json:"containerd"`
	}
	if text, ok := status.GetInfo()["config"]; ok {
		if err := json.Unmarshal([]byte(text), &info); err != nil {
			return false, fmt.Errorf("read the configuration of the runtime: %w", err)
		}
	}
	systemd, _ := info.Containerd.Runtimes[info.Containerd.DefaultRuntimeName].Options["SystemdCgroup"].(bool)
	return systemd, nil
}

// RuntimeName returns the name of the runtime at an endpoint, such as containerd or cri-o.
func RuntimeName(ctx context.Context, endpoint string) (string, error) {
	conn, client, err := connect(endpoint)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	version, err := client.Version(ctx, &runtimeapi.VersionRequest{})
	return version.GetRuntimeName(), err
}

// RemovePods stops and removes all pods of the runtime at an endpoint, and returns how many.
func RemovePods(ctx context.Context, endpoint string) (removed int, err error) {
	conn, client, err := connect(endpoint)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	pods, err := client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, p := range pods.GetItems() {
		if _, err := client.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.Id}); err != nil {
			errs = append(errs, fmt.Errorf("stop pod %s/%s: %w", p.GetMetadata().GetNamespace(),
				p.GetMetadata().GetName(), err))
			continue
		}
		if _, err := client.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: p.Id}); err != nil {
			errs = append(errs, fmt.Errorf("remove pod %s/%s: %w", p.GetMetadata().GetNamespace(),
				p.GetMetadata().GetName(), err))
			continue
		}
		removed++
	}
	return removed, errors.Join(errs...)
}
