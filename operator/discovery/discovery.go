// Package discovery tells what a server serves: its groups, and the resources of each version. What it has read it may keep in memory, or
// in files for the next process to find.
//
//	d, err := discovery.New(discovery.Config{REST: rest, Dir: filepath.Join(cache, "discovery"), Life: 6 * time.Hour})
//	resources, err := d.Resources(ctx, schema.GroupVersion{Group: "apps", Version: "v1"})
//	c, err := client.New(client.Config{REST: rest, Mapper: d.Mapper()})
//
// A client has a mapper that remembers what it has read, so operators need none of this; tools that start often do.
//
// All is safe for concurrent use; no lock is held while the server is asked.
package discovery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kelson.dev/operator/client"
)

// Config says which server is asked, and what is kept. Without Memory and Dir nothing is.
type Config struct {
	// REST is the server; required.
	REST *rest.Config
	// Memory keeps what was read until Invalidate.
	Memory bool
	// Dir, if not empty, is a folder for files, which is made when it is missing. Each server has its own within it, and each user: who may
	// read the folder sees what the user saw. Files older than Life do not count.
	Dir string
	// Life of files; 6 hours if zero.
	Life time.Duration
}

// Client answers questions about a server.
type Client struct {
	cfg    Config
	server client.Client

	mu      sync.Mutex
	memory  map[string][]byte // by path
	invalid time.Time         // files of before do not count
}

// New makes a client. It does not contact the server.
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

// identity is a name for a server and who asks it: what is served may depend on both.
func identity(cfg *rest.Config) string {
	host := cfg.Host
	if u, err := url.Parse(cfg.Host); err == nil && u.Host != "" {
		host = u.Host + u.Path
	}
	who := fmt.Sprint(cfg.Username, "\x00", cfg.BearerToken, "\x00", cfg.BearerTokenFile, "\x00", cfg.CertFile, "\x00", string(cfg.CertData), "\x00", cfg.Impersonate)
	sum := sha256.Sum256([]byte(host + "\x00" + who))
	return url.PathEscape(host) + "-" + hex.EncodeToString(sum[:6])
}

// Groups are those the server serves, the core group first, which has no name.
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

// Resources are those of a version, subresources too. The error is NotFound if there is no such version.
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

// Mapper maps kinds to resources. When it does not find one in what is kept, the server is asked.
func (c *Client) Mapper() *client.Mapper {
	return client.NewKeepingMapper(func(ctx context.Context, path string, into any) error {
		if client.IsFresh(ctx) {
			c.forget(path)
		}
		return c.document(ctx, path, into)
	})
}

// Invalidate has the server asked again. Files stay until they are written anew.
func (c *Client) Invalidate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.memory, c.invalid = map[string][]byte{}, time.Now()
}

func (c *Client) forget(path string) {
	c.mu.Lock()
	delete(c.memory, path)
	c.mu.Unlock()
	if c.cfg.Dir != "" {
		_ = os.Remove(c.file(path)) // what is not there is forgotten
	}
}

func (c *Client) document(ctx context.Context, path string, into any) error {
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
		_ = c.write(path, data) // the next process asks the server, too
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

// write puts a file in its place whole, or not at all.
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
