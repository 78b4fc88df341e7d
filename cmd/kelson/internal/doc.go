// Package internal contains the tests of small packages of the command, each in files whose names
// begin with the package's. One program for all of them is linked faster.
package internal
