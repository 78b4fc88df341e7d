package operatortest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/operator/operatortest/manifest"
)

// plane is a throwaway control plane as returned by the server.
type plane struct {
	ID         string `json:"id"`
	Path       string `json:"path"`
	Kubeconfig string `json:"kubeconfig"`
}

func (p *plane) config() (*rest.Config, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(p.Kubeconfig))
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of a control plane: %w", err)
	}
	config.QPS = -1 // the server does flow control
	return config, nil
}

// create creates a plane. ready is true if it already has the manifests; otherwise the caller must
// install them and call installed.
func (s *server) create(ctx context.Context, o options,
	manifests []manifest.Manifest) (_ *plane, ready bool, err error) {
	request := map[string]any{"node": string(o.node)}
	if o.workloads {
		request["workloads"] = true
	}
	if len(o.nodes) > 0 {
		request["nodes"] = o.nodes
	}
	if len(o.stages) > 0 {
		stages, err := manifest.Read(o.stages...)
		if err != nil {
			return nil, false, err
		}
		objects := make([]any, len(stages))
		for i, s := range stages {
			objects[i] = s.Object
		}
		request["stages"] = objects
	}
	if o.fork != "" {
		request["fork"] = o.fork
		ready = len(manifests) == 0
	} else {
		base, err := baseName(manifests)
		if err != nil {
			return nil, false, err
		}
		if ready = s.hasBase(base); ready {
			request["base"] = base
		}
		ready = ready || len(manifests) == 0
	}
	made := &plane{}
	if err := s.do(ctx, http.MethodPost, "/planes", request, made); err != nil {
		return nil, false, fmt.Errorf("get a control plane: %w", err)
	}
	return made, ready, nil
}

// installed saves the state of a plane with installed manifests, as a base for later ones.
func (s *server) installed(ctx context.Context, from *plane, o options, manifests []manifest.Manifest) error {
	if o.fork != "" {
		return nil // it has more than the manifests
	}
	base, err := baseName(manifests)
	if err != nil {
		return err
	}
	if err := s.do(ctx, http.MethodPut, "/planes/bases/"+base, map[string]string{"plane": from.ID}, nil); err != nil {
		return fmt.Errorf("save a control plane: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bases[base] = true
	return nil
}

func (s *server) hasBase(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bases[name]
}

// baseName returns a name for a state with these objects. If two tests install the same objects
// concurrently, both save the state.
func baseName(manifests []manifest.Manifest) (string, error) {
	hash := sha256.New()
	for _, m := range manifests {
		if err := json.NewEncoder(hash).Encode(m.Object.Object); err != nil {
			return "", fmt.Errorf("read %s: %w", m.File, err)
		}
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// drop deletes a plane. The context of its test has ended by then.
func (s *server) drop(p *plane) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.do(ctx, http.MethodDelete, p.Path, nil, nil); err != nil {
		return fmt.Errorf("drop a control plane: %w", err)
	}
	return nil
}

// do sends a request to the server itself. Errors include what the server has written to standard
// error.
func (s *server) do(ctx context.Context, method, path string, body, into any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("%w%s", err, s.stderr.report())
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode >= 300 {
		var status metav1.Status
		message := strings.TrimSpace(string(answer))
		if json.Unmarshal(answer, &status) == nil && status.Message != "" {
			message = status.Message
		}
		return fmt.Errorf("%s %s: %s: %s%s", method, path, resp.Status, message, s.stderr.report())
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}
