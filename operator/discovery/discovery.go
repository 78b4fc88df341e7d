// Package discovery reads what a server serves: its groups, and the resources of each version. It
// can cache the results in memory, or in files for later processes.
//
//	d, err := discovery.New(discovery.Config{REST: rest, Dir: filepath.Join(cache, "discovery"), Life: 6 * time.Hour})
//	resources, err := d.Resources(ctx, schema.GroupVersion{Group: "apps", Version: "v1"})
//	c, err := client.New(client.Config{REST: rest, Mapper: d.Mapper()})
//
// A client's own mapper caches what it has read, so operators don't need this package. It is for
// short-lived tools.
//
// All methods are safe for concurrent use; no lock is held during requests.
package discovery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kelson.dev/operator/client"
)

// Config configures a Client. Without Memory and Dir, nothing is cached.
type Config struct {
	// REST is the configuration of the server; required.
	REST *rest.Config
	// Memory caches responses in memory until Invalidate.
	Memory bool
	// Dir, if not empty, is a folder for cache files, which is created if missing. Files are
	// separate per server and user; users who can read the folder see the user's discovery
	// documents. Files older than Life are ignored.
	Dir string
	// Life is the lifetime of files; 6 hours if zero.
	Life time.Duration
}

// Client reads discovery documents of a server.
type Client struct {
	cfg    Config
	server client.Client

	mu      sync.Mutex
	memory  map[string][]byte // by path
	invalid time.Time         // older files are ignored
}

// New returns a client. It does not contact the server.
func New(cfg Config) (*Client, error) {
	c, err := client.New(client.Config{REST: cfg.REST})
	if err != nil {
		return nil, fmt.Errorf("new discovery: %w", err)
	}
	if cfg.Life == 0 {
		cfg.Life = 6 * time.Hour
	}
	if cfg.Dir != "" {
		cfg.Dir = filepath.Join(cfg.Dir, identity(cfg.REST))
	}
	return &Client{cfg: cfg, server: c, memory: map[string][]byte{}}, nil
}

// identity returns a name for a server and a user, because the documents can depend on both.
func identity(cfg *rest.Config) string {
	host := cfg.Host
	if u, err := url.Parse(cfg.Host); err == nil && u.Host != "" {
		host = u.Host + u.Path
	}
	who := fmt.Sprint(cfg.Username, "\x00", cfg.BearerToken, "\x00", cfg.BearerTokenFile, "\x00", cfg.CertFile, "\x00",
		string(cfg.CertData), "\x00", cfg.Impersonate)
	sum := sha256.Sum256([]byte(host + "\x00" + who))
	return url.PathEscape(host) + "-" + hex.EncodeToString(sum[:6])
}

// Groups returns the groups that the server serves. The first one is the core group, whose name is
// empty.
func (c *Client) Groups(ctx context.Context) ([]metav1.APIGroup, error) {
	var legacy metav1.APIVersions
	if err := c.document(ctx, "/api", &legacy); err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("discover the core group: %w", err)
	}
	var list metav1.APIGroupList
	if err := c.document(ctx, "/apis", &list); err != nil {
		return nil, fmt.Errorf("discover groups: %w", err)
	}
	var groups []metav1.APIGroup
	if len(legacy.Versions) > 0 {
		core := metav1.APIGroup{}
		for _, v := range legacy.Versions {
			core.Versions = append(core.Versions, metav1.GroupVersionForDiscovery{GroupVersion: v, Version: v})
		}
		core.PreferredVersion = core.Versions[0]
		groups = append(groups, core)
	}
	return append(groups, list.Groups...), nil
}

// Resources returns the resources of a group version, including subresources; NotFound if the
// version is not served.
func (c *Client) Resources(ctx context.Context, version schema.GroupVersion) ([]metav1.APIResource, error) {
	path := "/apis/" + version.String()
	if version.Group == "" {
		path = "/api/" + version.Version
	}
	var list metav1.APIResourceList
	if err := c.document(ctx, path, &list); err != nil {
		return nil, fmt.Errorf("discover %s: %w", version, err)
	}
	return list.APIResources, nil
}

// Mapper returns a mapper of kinds to resources. It reads from the server if the cache does not
// have a kind.
func (c *Client) Mapper() *client.Mapper {
	return client.NewKeepingMapper(func(ctx context.Context, path string, into any) error {
		if client.IsFresh(ctx) {
			c.forget(path)
		}
		return c.document(ctx, path, into)
	})
}

// Invalidate clears the cache in memory and ignores existing files from then on.
func (c *Client) Invalidate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.memory, c.invalid = map[string][]byte{}, time.Now()
}

func (c *Client) forget(path string) {
	c.mu.Lock()
	delete(c.memory, path)
	c.mu.Unlock()
	if c.cfg.Dir != "" && isPlain(path) {
		_ = os.Remove(c.file(path)) // a missing file is fine
	}
}

// isPlain reports whether a path selects a file below the folder. Parts of it can come from a
// server.
func isPlain(path string) bool {
	name := strings.TrimPrefix(path, "/")
	return fs.ValidPath(name) && filepath.IsLocal(filepath.FromSlash(name))
}

func (c *Client) document(ctx context.Context, path string, into any) error {
	if !isPlain(path) {
		return fmt.Errorf("GET %s: invalid group or version", path)
	}
	if data := c.kept(path); data != nil && json.Unmarshal(data, into) == nil {
		return nil
	}
	var data json.RawMessage
	if err := client.Document(ctx, c.server, path, &data); err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	if c.cfg.Memory {
		c.mu.Lock()
		c.memory[path] = data
		c.mu.Unlock()
	}
	if c.cfg.Dir != "" {
		_ = c.write(path, data) // on an error, later processes read from the server
	}
	return nil
}

func (c *Client) kept(path string) []byte {
	c.mu.Lock()
	data, invalid := c.memory[path], c.invalid
	c.mu.Unlock()
	if data != nil || c.cfg.Dir == "" {
		return data
	}
	info, err := os.Stat(c.file(path))
	if err != nil || time.Since(info.ModTime()) > c.cfg.Life || info.ModTime().Before(invalid) {
		return nil
	}
	data, _ = os.ReadFile(c.file(path))
	return data
}

func (c *Client) file(path string) string {
	return filepath.Join(c.cfg.Dir, filepath.FromSlash(path), "document.json")
}

// write replaces a file atomically.
func (c *Client) write(path string, data []byte) error {
	folder := filepath.Dir(c.file(path))
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	f, err := os.CreateTemp(folder, "new-")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	now := time.Now()
	if err := errors.Join(err, f.Close(), os.Chtimes(f.Name(), now, now)); err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	return os.Rename(f.Name(), c.file(path))
}
