// SHA-256 (FIPS 180-4), for files that a page loads: the browser's own digest copies the whole file once more, and is
// missing where a page comes neither from this machine nor over https.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace regard {

class Sha256 {
    static constexpr uint32_t constants[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
    };
    static constexpr size_t block = 64;

    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

    static uint32_t turned(uint32_t x, int by) { return x >> by | x << (32 - by); }

    void add(const uint8_t* bytes) {
        uint32_t words[64];
        for (int i = 0; i < 16; ++i) {
            std::memcpy(&words[i], bytes + 4 * i, 4);
            words[i] = __builtin_bswap32(words[i]);
        }
        for (int i = 16; i < 64; ++i) {
            const uint32_t a = words[i - 15], b = words[i - 2];
            words[i] = words[i - 16] + (turned(a, 7) ^ turned(a, 18) ^ a >> 3) + words[i - 7] +
                       (turned(b, 17) ^ turned(b, 19) ^ b >> 10);
        }
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
        uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
        for (int i = 0; i < 64; ++i) {
            const uint32_t first =
                h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + constants[i] + words[i];
            const uint32_t second = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
            h = g;
            g = f;
            f = e;
            e = d + first;
            d = c;
            c = b;
            b = a;
            a = first + second;
        }
        const uint32_t after[8] = {a, b, c, d, e, f, g, h};
        for (int i = 0; i < 8; ++i) state[i] += after[i];
    }

  public:
    // The 32 bytes of the digest.
    void digest(const uint8_t* bytes, size_t count, uint8_t* to) {
        const size_t whole = count / block * block;
        for (size_t at = 0; at < whole; at += block) add(bytes + at);
        // A one, zeros, and the number of bits fill the last block, or two.
        uint8_t last[2 * block] = {};
        std::memcpy(last, bytes + whole, count - whole);
        last[count - whole] = 0x80;
        const size_t filled = count - whole + 9 <= block ? block : 2 * block;
        const uint64_t bits = __builtin_bswap64(static_cast<uint64_t>(count) * 8);
        std::memcpy(last + filled - 8, &bits, 8);
        for (size_t at = 0; at < filled; at += block) add(last + at);
        for (int i = 0; i < 8; ++i) {
            const uint32_t word = __builtin_bswap32(state[i]);
            std::memcpy(to + 4 * i, &word, 4);
        }
    }
};

}  // namespace regard
