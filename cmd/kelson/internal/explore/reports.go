package explore

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"kelson.dev/lab/explore"
)

// reports writes the files of --junit and --sarif.
func (p *printer) reports(m explore.Message) error {
	if p.junit != "" {
		if err := p.writeJUnit(m); err != nil {
			return fmt.Errorf("write the report of JUnit: %w", err)
		}
	}
	if p.sarif != "" {
		if err := p.writeSARIF(); err != nil {
			return fmt.Errorf("write the report in SARIF: %w", err)
		}
	}
	return nil
}

// junitSuite is a test suite in the format of JUnit. A case is an alarm, the other plans together,
// or a kind of fault that was not tried.
type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string       `xml:"classname,attr"`
	Name    string       `xml:"name,attr"`
	Failure *junitResult `xml:"failure"`
	Skipped *junitResult `xml:"skipped"`
}

type junitResult struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

func (p *printer) writeJUnit(m explore.Message) error {
	const class = "kelson explore"
	suite := junitSuite{Name: class, Failures: len(p.failures), Time: "0"}
	for _, f := range p.failures {
		text := f.Detail + "\nreplay: " + p.replay(f.Plan)
		suite.Cases = append(suite.Cases, junitCase{Class: class, Name: f.Plan,
			Failure: &junitResult{Message: f.What, Type: f.Oracle, Text: printableXML(text)}})
	}
	if r := m.Report; r != nil {
		suite.Time = fmt.Sprintf("%.3f", r.Took.Seconds())
		if plans := r.Plans - len(p.failures); plans > 0 {
			suite.Cases = append(suite.Cases, junitCase{Class: class, Name: fmt.Sprintf("%d other plans", plans)})
		}
		for _, n := range r.NotTried {
			suite.Skipped++
			suite.Cases = append(suite.Cases, junitCase{Class: class, Name: string(n.Kind),
				Skipped: &junitResult{Message: printableXML(n.Reason)}})
		}
	}
	suite.Tests = len(suite.Cases)
	data, err := xml.MarshalIndent(suite, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(p.junit, append([]byte(xml.Header), append(data, '\n')...), 0o644)
}

// printableXML replaces characters that XML does not allow.
func printableXML(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' {
			return '\uFFFD'
		}
		return r
	}, text)
}

// writeSARIF writes the alarms as results. Rules are oracles. Alarms are about the behavior of the
// program, so each result is at the first line of the project's go.mod.
func (p *printer) writeSARIF() error {
	type object = map[string]any
	text := func(s string) object { return object{"text": s} }
	rules, results := []object{}, []object{}
	var ids []string
	for _, f := range p.failures {
		if !slices.Contains(ids, f.Oracle) {
			ids = append(ids, f.Oracle)
			rules = append(rules, object{"id": f.Oracle, "shortDescription": text(f.What)})
		}
		results = append(results, object{
			"ruleId": f.Oracle, "level": "error", "message": text(f.Finding + "\nreplay: " + p.replay(f.Plan)),
			"partialFingerprints": object{"plan/v1": f.Plan},
			"locations": []object{{
				"physicalLocation": object{"artifactLocation": object{"uri": path.Join(p.folder, "go.mod")},
					"region": object{"startLine": 1}},
				"logicalLocations": []object{{"fullyQualifiedName": f.Plan}},
			}},
		})
	}
	log := object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []object{{"tool": object{"driver": object{"name": "kelson explore", "rules": rules}},
			"results": results}},
	}
	data, err := json.MarshalIndent(log, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(p.sarif, append(data, '\n'), 0o644)
}
