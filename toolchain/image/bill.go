package image

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"regexp"
	"runtime/debug"
	"strings"
	"time"
)

// BillType is the media type of a Bill.
const BillType = "application/spdx+json"

// noAssertion is the value in a bill for properties that were not determined.
const noAssertion = "NOASSERTION"

// Bill is a software bill of materials of one program, in SPDX 2.3.
type Bill struct {
	Platform Platform
	// JSON is the document. It has the program, its Go modules with their checksums, and the Go
	// release.
	JSON []byte
}

// The types below have the fields of SPDX 2.3 that a bill uses.
type (
	document struct {
		Version       string         `json:"spdxVersion"`
		License       string         `json:"dataLicense"`
		ID            string         `json:"SPDXID"`
		Name          string         `json:"name"`
		Namespace     string         `json:"documentNamespace"`
		Creation      creation       `json:"creationInfo"`
		Packages      []spdxPackage  `json:"packages"`
		Relationships []relationship `json:"relationships"`
	}
	creation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		ID        string      `json:"SPDXID"`
		Name      string      `json:"name"`
		Version   string      `json:"versionInfo,omitempty"`
		Location  string      `json:"downloadLocation"`
		Analyzed  bool        `json:"filesAnalyzed"`
		Concluded string      `json:"licenseConcluded"`
		Declared  string      `json:"licenseDeclared"`
		Checksums []checksum  `json:"checksums,omitempty"`
		Refs      []reference `json:"externalRefs,omitempty"`
		Comment   string      `json:"comment,omitempty"`
	}
	checksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	reference struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	relationship struct {
		From string `json:"spdxElementId"`
		Type string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)

// Facts are properties of a module that the Go linker does not record.
type Facts struct {
	// License is an SPDX expression; "" becomes NOASSERTION.
	License string
	// Version is used for a module whose recorded version is (devel), as that of the main module.
	Version string
}

// BillOf returns the bill of a compiled program, from the modules that the Go linker has recorded
// in it. The platform and the time of creation are copied to the bill. facts has what is known
// about modules, by their paths.
func BillOf(binary string, p Platform, created time.Time, facts map[string]Facts) (Bill, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return Bill{}, fmt.Errorf("read the modules of the program: %w", err)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return Bill{}, err
	}
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	main := module(&info.Main, facts)
	main.Checksums = []checksum{{"SHA256", digest}}
	main.Comment = fmt.Sprintf("the program of package %s for %s", info.Path, p)
	doc := document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: path.Base(info.Path),
		Namespace:     fmt.Sprintf("https://kelson.dev/spdx/%s-%s", path.Base(info.Main.Path), digest),
		Creation:      creation{created.Format(time.RFC3339), []string{"Tool: kelson image"}},
		Packages:      []spdxPackage{main},
		Relationships: []relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", main.ID}},
	}
	standard := &debug.Module{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")}
	for _, m := range append([]*debug.Module{standard}, info.Deps...) {
		dep := module(m, facts)
		doc.Packages = append(doc.Packages, dep)
		doc.Relationships = append(doc.Relationships, relationship{main.ID, "DEPENDS_ON", dep.ID})
	}
	data, err := json.MarshalIndent(doc, "", "  ")
	return Bill{p, append(data, '\n')}, err
}

// notInID matches characters that identifiers of SPDX must not contain.
var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// devel is the version that the Go linker records for modules without a version.
const devel = "(devel)"

func module(m *debug.Module, facts map[string]Facts) spdxPackage {
	comment := ""
	if m.Replace != nil {
		comment = "replaces " + m.Path + " " + m.Version
		m = m.Replace
	}
	known, version := facts[m.Path], m.Version
	if version == devel {
		version = cmp.Or(known.Version, devel)
	}
	out := spdxPackage{
		ID: "SPDXRef-Package-" + notInID.ReplaceAllString(m.Path+"-"+version, "-"), Name: m.Path, Version: version,
		Location: noAssertion, Comment: comment,
		Concluded: noAssertion, Declared: cmp.Or(known.License, noAssertion),
	}
	if version != "" && version != devel {
		out.Refs = []reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + m.Path + "@" + version}}
	}
	if m.Sum != "" {
		// The checksum of a module in go.sum is a hash over the hashes of its files, for which SPDX
		// has no algorithm name.
		out.Comment = strings.TrimPrefix(out.Comment+"; go.sum has "+m.Sum, "; ")
	}
	return out
}
