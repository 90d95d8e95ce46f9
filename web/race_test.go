//go:build race

package web

const raceDetector = true
