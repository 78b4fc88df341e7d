// Package lab contains the tests of small packages in this folder, each in a file with the
// package's name. One program for all of them is linked faster.
package lab
