package plugin

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// archive matches the names of a release's archives: kelson-linux-amd64.tar.gz.
var archive = regexp.MustCompile(`^kelson[-_]([a-z]+)[-_]([a-z0-9]+)\.(tar\.gz|zip)$`)

// version matches the versions that Krew accepts.
var version = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

func krewCommand() *cobra.Command {
	var release, url string
	c := &cobra.Command{
		Use:   "krew-manifest ARCHIVE...",
		Short: "Print the manifest of the plugin for Krew, kubectl's plugin manager",
		Long: `Print the manifest of the plugin for Krew, kubectl's plugin manager.

The arguments are the archives of a release, named kelson-OS-ARCH.tar.gz or .zip,
with the binary kelson at their top. The manifest has their checksums and, as
addresses, --url followed by their names.`,
		Example: `  kelson kubectl-plugin krew-manifest --version v1.0.0 --url https://example.com/v1.0.0 dist/kelson-*.tar.gz >kelson.yaml
  kubectl krew install --manifest=kelson.yaml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if !version.MatchString(release) {
				return fmt.Errorf("--version %q: want a version such as v1.0.0", release)
			}
			if !strings.HasPrefix(url, "https://") {
				return errors.New("--url: must begin with https://, which Krew needs")
			}
			m, err := manifest(release, strings.TrimSuffix(url, "/"), args)
			if err != nil {
				return err
			}
			_, err = c.OutOrStdout().Write(m)
			return err
		},
	}
	c.Flags().StringVar(&release, "version", "", "version of the release, such as v1.0.0")
	c.Flags().StringVar(&url, "url", "", "address of the folder that will have the archives")
	_ = c.MarkFlagRequired("version") // the flags exist
	_ = c.MarkFlagRequired("url")
	return c
}

type platform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string `json:"uri"`
	SHA256 string `json:"sha256"`
	Bin    string `json:"bin"`
	Files  []file `json:"files"`
}

type file struct {
	From string `json:"from"`
	To   string `json:"to"`
}

func manifest(release, url string, archives []string) ([]byte, error) {
	var platforms []platform
	for _, path := range archives {
		parts := archive.FindStringSubmatch(filepath.Base(path))
		if parts == nil {
			return nil, fmt.Errorf("%s: want a name such as kelson-linux-amd64.tar.gz", path)
		}
		sum, err := checksum(path)
		if err != nil {
			return nil, err
		}
		binary := "kelson"
		if parts[1] == "windows" {
			binary = "kelson.exe"
		}
		p := platform{URI: url + "/" + filepath.Base(path), SHA256: sum, Bin: binary,
			Files: []file{{From: binary, To: "."}, {From: "LICENSE", To: "."}}}
		p.Selector.MatchLabels = map[string]string{"os": parts[1], "arch": parts[2]}
		platforms = append(platforms, p)
	}
	return yaml.Marshal(map[string]any{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
		"kind":       "Plugin",
		"metadata":   map[string]any{"name": "kelson"},
		"spec": map[string]any{
			"version":          release,
			"shortDescription": "See why a cluster is in its state",
			"description": "Explains why objects are in their state, from the traces that operators record: which\nreconciles wrote them and what caused those. Also records the history of a cluster,\n" +
				"compares it between two moments, compares an operator's rights with what it needed,\nchecks manifests offline, and shows all of it in a browser (kubectl kelson console).\n",
			"platforms": platforms,
		},
	})
}

func checksum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
