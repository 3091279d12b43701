// One action of one robot: the body of a function that a group of lanes of a GPU runs together for one world. On a CPU
// one thread plays all lanes. `action.py` writes the robot's numbers above it.
//
// Both robots are a torso (ROOT degrees of freedom) with LEGS legs of LINKS hinges each. All vectors are in the world's
// axes, and all spatial vectors are about the origin of the torso, O:
//
//     motion  S_k  = (turn w; speed of the point at O)        of degree of freedom k, for a unit of speed
//     V = sum S qd,  A = sum (V x S) qd + (0; -gravity)       along the path to a link
//     force   f = -m (a + drag v),  n = -(I A_w + w x I w + drag I w)
//     M_kj = S_j . (I_k S_k),  tau_k = S_k . (f of all links that k moves) + motor
//
// M is factorised from the tips of the legs to the root. Contacts and limits are rows J, with the answers X = M^-1 J:
// `robots.py` explains their rules. EACH shares work out to the lanes, SYNC ends a phase. Every number is computed in
// a fixed order, so the bits repeat, for any number of lanes.

#if defined(__CUDA_ARCH__)
enum { SHARE = WIDE / 4 };  // of the speeds, for one lane
#else
enum { SHARE = WIDE };
#endif

struct Vec {
  float x, y, z;
  CUDA_CALLABLE Vec operator+(Vec o) const { return {x + o.x, y + o.y, z + o.z}; }
  CUDA_CALLABLE Vec operator-(Vec o) const { return {x - o.x, y - o.y, z - o.z}; }
  CUDA_CALLABLE Vec operator*(float s) const { return {x * s, y * s, z * s}; }
  CUDA_CALLABLE float dot(Vec o) const { return x * o.x + y * o.y + z * o.z; }
  CUDA_CALLABLE Vec cross(Vec o) const { return {y * o.z - z * o.y, z * o.x - x * o.z, x * o.y - y * o.x}; }
  CUDA_CALLABLE float length() const { return sqrtf(dot(*this)); }
};

struct Turn {  // a rotation; its columns are the axes of a link
  Vec x, y, z;
  CUDA_CALLABLE Vec operator*(Vec v) const { return x * v.x + y * v.y + z * v.z; }
  CUDA_CALLABLE Vec back(Vec v) const { return {x.dot(v), y.dot(v), z.dot(v)}; }
};

struct Motion {
  Vec turn;
  float unused;  // memory is read in fours
  Vec speed;
  float unused_too;
};

struct Link {  // relative to O
  Turn axes;
  Vec place;
};

struct Point {  // of a capsule that touches or touched the floor
  Vec local;    // in the axes of the link
  float x, y;   // where it touched first
  float turn;   // 0: none; 1, 2: the order of the two points of a capsule
};

struct Contact {
  Vec arm;
  int geom;
};

struct alignas(16) Row {
  float J[WIDE], X[WIDE];  // WIDE: DOFS, rounded up to four parts
  float missing, own, impulse, unused;  // the speed that is asked for, 1 / (J . X), and the impulse so far
};

struct Part {  // of a row, for one lane
  float J[SHARE], X[SHARE], missing, own, impulse;
};

enum { TORQUE, FORCE = 3, MASS = 6, MOMENT, INERTIA = 10, SUMS = 16 };  // in `sums`

struct alignas(16) World {
  Motion S[DOFS];
  float M[ENTRIES], inverse[DOFS], tau[DOFS], acceleration[DOFS], change[WIDE];
  float q[ROOT_Q + JOINTS], v[DOFS], motor[JOINTS];
  float weighted[BODIES][2];  // the part of each link in the position
  Point points[2 * GEOMS];
  Contact contacts[2 * GEOMS];
  int outside[JOINTS], touching[GEOMS], limit[JOINTS];
  union {
    Row rows[ROWS_AT_HAND];
    struct {  // not needed any more when rows are written
      float sums[BODIES][SUMS];
      Link links[BODIES];
      float cos[JOINTS + 1], sin[JOINTS + 1];
    };
  };
};

#if defined(__CUDA_ARCH__)
#define EACH(i, count) for (int i = lane; i < (count); i += LANES)
#define SYNC __syncwarp(group)
#define UNROLL _Pragma("unroll")
__shared__ World in_block[WORLDS_IN_BLOCK];
const int lane = threadIdx.x % LANES, first = lane % 4 * SHARE, world = thread / LANES;
const unsigned group = LANES == 32 ? 0xffffffffu : ((1u << LANES % 32) - 1) << (threadIdx.x % 32 / LANES * LANES);
World& w = in_block[threadIdx.x / LANES];
#else
#define EACH(i, count) for (int i = 0; i < (count); ++i)
#define SYNC
#define UNROLL
if (thread % LANES) return;
const int lane = 0, first = 0, world = thread / LANES;
World here;
World& w = here;
#endif

float* const qpos_here = qpos.data + world * (ROOT_Q + JOINTS);
float* const qvel_here = qvel.data + world * DOFS;
float* const memory_here = memory.data + world * MEMORY;
Row* const more_rows = (Row*)rows.data + (size_t)world * (ROWS - ROWS_AT_HAND);

auto row_at = [&](int number) -> Row& {
  if (ROWS == ROWS_AT_HAND || number < ROWS_AT_HAND) return w.rows[number];
  return more_rows[number - ROWS_AT_HAND];
};
auto leg_row = [&](int leg, int link) {  // where the row of a hinge begins in M: columns of the root, then of its leg
  return ROOT * (ROOT + 1) / 2 + leg * LEG_ENTRIES + link * ROOT + link * (link + 1) / 2;
};
auto root_row = [&](int entry) {  // the row of an entry of the root's triangle
  int row = 0;
  UNROLL for (int k = 1; k < ROOT; ++k) row += entry >= k * (k + 1) / 2;
  return row;
};
auto least = [&](float a, float b) { return a < b ? a : b; };
auto held = [&](float value, float most) { return value > most ? most : value < -most ? -most : value; };  // keeps NaN

EACH(i, ROOT_Q + JOINTS) w.q[i] = qpos_here[i];
EACH(i, DOFS) w.v[i] = qvel_here[i];
EACH(i, JOINTS) w.motor[i] = GEAR[i] * ctrl.data[world * JOINTS + i];
EACH(i, MEMORY - FEET) ((float*)w.points)[i] = memory_here[i];
SYNC;

for (int step = 0; step < steps || step == 0; ++step) {
  // ---- joints: cosines, and limits that are exceeded
  EACH(i, JOINTS + PLANAR) {
    const float angle = i < JOINTS ? w.q[ROOT_Q + i] : w.q[2];
    w.cos[i] = cosf(angle);
    w.sin[i] = sinf(angle);
    if (i < JOINTS) w.outside[i] = least(angle - LOWER[i], UPPER[i] - angle) <= 0;
  }
  SYNC;

  // ---- links: positions, velocities, inertia, and forces other than the motors'
  EACH(body, BODIES) {
    Turn axes;
    Vec place = {0, 0, 0}, turn, speed;
    if (PLANAR) {
      const float c = w.cos[JOINTS], s = w.sin[JOINTS];
      axes = {{c, 0, -s}, {0, 1, 0}, {s, 0, c}};
      turn = {0, w.v[2], 0};
      speed = {w.v[0], 0, w.v[1]};
    } else {
      const float* q = w.q + 3;
      const float scale = 1 / sqrtf(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
      const float a = q[0] * scale, b = q[1] * scale, c = q[2] * scale, d = q[3] * scale;
      axes.x = {a * a + b * b - c * c - d * d, 2 * (b * c + a * d), 2 * (b * d - a * c)};
      axes.y = {2 * (b * c - a * d), a * a - b * b + c * c - d * d, 2 * (c * d + a * b)};
      axes.z = {2 * (b * d + a * c), 2 * (c * d - a * b), a * a - b * b - c * c + d * d};
      turn = axes * Vec{w.v[3 % DOFS], w.v[4 % DOFS], w.v[5 % DOFS]};
      speed = {w.v[0], w.v[1], w.v[2]};
    }
    if (body == 0) {
      const Vec none = {0, 0, 0};
      w.S[0] = {none, 0, {1, 0, 0}, 0};
      if (PLANAR) {
        w.S[1] = {none, 0, {0, 0, 1}, 0};
        w.S[2] = {{0, 1, 0}, 0, none, 0};
      } else {
        w.S[1] = {none, 0, {0, 1, 0}, 0};
        w.S[2] = {none, 0, {0, 0, 1}, 0};
        w.S[3 % DOFS] = {axes.x, 0, none, 0};
        w.S[4 % DOFS] = {axes.y, 0, none, 0};
        w.S[5 % DOFS] = {axes.z, 0, none, 0};
      }
    }
    Vec turn_rate = {0, 0, 0}, speed_rate = speed.cross(turn) + Vec{0, 0, GRAVITY};
    const int depth = DEPTH[body], leg = LEG[body];
    UNROLL for (int link = 0; link < LINKS; ++link) {
      if (link >= depth) break;
      const int joint = leg * LINKS + link;
      const float c = w.cos[joint], s = w.sin[joint], rate = w.v[ROOT + joint];
      const Vec local = {AXIS[joint][0], AXIS[joint][1], AXIS[joint][2]}, axis = axes * local;
      place = place + axes * Vec{OFFSET[joint][0], OFFSET[joint][1], OFFSET[joint][2]};
      axes.x = axes.x * c + axis.cross(axes.x) * s + axis * ((1 - c) * local.x);
      axes.y = axes.y * c + axis.cross(axes.y) * s + axis * ((1 - c) * local.y);
      axes.z = axes.z * c + axis.cross(axes.z) * s + axis * ((1 - c) * local.z);
      const Vec moved = place.cross(axis);
      turn_rate = turn_rate + turn.cross(axis) * rate;
      speed_rate = speed_rate + (turn.cross(moved) + speed.cross(axis)) * rate;
      turn = turn + axis * rate;
      speed = speed + moved * rate;
      if (link + 1 == depth) w.S[ROOT + joint] = {axis, 0, moved, 0};
    }
    w.links[body] = {axes, place};
    const float m = BODY_MASS[body];
    const Vec center = place + axes * Vec{CENTER[body][0], CENTER[body][1], CENTER[body][2]};
    const Vec inertia = {BODY_INERTIA[body][0], BODY_INERTIA[body][1], BODY_INERTIA[body][2]};
    const Vec at_center = speed + turn.cross(center);
    const Vec accelerated = speed_rate + turn_rate.cross(center) + turn.cross(at_center);
    const Vec force = (accelerated + at_center * (DRAG + DRAG_OF_SPEED * at_center.length())) * -m;
    const Vec a = axes.x * inertia.x, b = axes.y * inertia.y, c = axes.z * inertia.z;
    const Vec spin = a * axes.x.dot(turn) + b * axes.y.dot(turn) + c * axes.z.dot(turn);
    const Vec torque = a * axes.x.dot(turn_rate) + b * axes.y.dot(turn_rate) + c * axes.z.dot(turn_rate) +
                       turn.cross(spin) + spin * (DRAG + DRAG_OF_SPEED * turn.length());
    const Vec about = center.cross(force) - torque, moment = center * m;
    const float square = moment.dot(center);
    float* sums = w.sums[body];
    sums[TORQUE] = about.x, sums[TORQUE + 1] = about.y, sums[TORQUE + 2] = about.z;
    sums[FORCE] = force.x, sums[FORCE + 1] = force.y, sums[FORCE + 2] = force.z;
    sums[MASS] = m, sums[MOMENT] = moment.x, sums[MOMENT + 1] = moment.y, sums[MOMENT + 2] = moment.z;
    sums[INERTIA] = a.x * axes.x.x + b.x * axes.y.x + c.x * axes.z.x + square - moment.x * center.x;
    sums[INERTIA + 1] = a.y * axes.x.y + b.y * axes.y.y + c.y * axes.z.y + square - moment.y * center.y;
    sums[INERTIA + 2] = a.z * axes.x.z + b.z * axes.y.z + c.z * axes.z.z + square - moment.z * center.z;
    sums[INERTIA + 3] = a.x * axes.x.y + b.x * axes.y.y + c.x * axes.z.y - moment.x * center.y;
    sums[INERTIA + 4] = a.x * axes.x.z + b.x * axes.y.z + c.x * axes.z.z - moment.x * center.z;
    sums[INERTIA + 5] = a.y * axes.x.z + b.y * axes.y.z + c.y * axes.z.z - moment.y * center.z;
    const float y = PLANAR ? 0 : w.q[1];
    w.weighted[body][0] = FRAMES[body] * (w.q[0] + place.x) + CENTERS[body] * (w.q[0] + center.x);
    w.weighted[body][1] = FRAMES[body] * (y + place.y) + CENTERS[body] * (y + center.y);
  }
  SYNC;
  if (steps == 0) break;

  // ---- sums over the legs; points of capsules near the floor
  EACH(i, LEGS * SUMS) {
    float sum = 0;
    for (int link = LINKS - 1; link >= 0; --link) {
      float* one = &w.sums[LINK_BODY[i / SUMS * LINKS + link]][i % SUMS];
      *one = sum = *one + sum;
    }
  }
  EACH(geom, GEOMS) {
    const Link link = w.links[GEOM_BODY[geom]];
    const Vec along = link.axes * Vec{GEOM_AXIS[geom][0], GEOM_AXIS[geom][1], GEOM_AXIS[geom][2]};
    const Vec base = {w.q[0], PLANAR ? 0 : w.q[1], (PLANAR ? HEIGHT + w.q[1] : w.q[2])}, frame = base + link.place;
    const Vec middle = frame + link.axes * Vec{GEOM_PLACE[geom][0], GEOM_PLACE[geom][1], GEOM_PLACE[geom][2]};
    const float half = HALF[geom], near = NEAR[geom];
    Point* pair = w.points + 2 * geom;
    if (middle.z - fabsf(along.z) * half - RADIUS[geom] < near) {
      const int other = half > 0 && along.z > 0;  // the end at -half is the lower one
      const Vec lowest = middle + along * (other ? -half : half) - Vec{0, 0, RADIUS[geom]};
      const float before = pair[other].turn;
      const float turn = before == 0 ? 1 + pair[1 - other].turn : before;
      pair[other] = {link.axes.back(lowest - frame), lowest.x, lowest.y, turn};
    }
    int count = 0;
    for (int side = 0; side < 2; ++side) {
      const Vec p = frame + link.axes * pair[side].local;
      const float x = p.x - pair[side].x, y = p.y - pair[side].y;
      const bool stays = pair[side].turn > 0 && p.z <= near && x * x + y * y <= near * near;
      if (!stays) pair[side].turn = 0;
      count += stays;
    }
    w.touching[geom] = count;
  }
  SYNC;

  // ---- sums of the whole robot; lists of limits and contacts in Bullet's order
  EACH(i, SUMS) {
    float sum = w.sums[0][i];
    UNROLL for (int body = 1; body < BODIES; ++body)
      if (DEPTH[body] < 2) sum += w.sums[body][i];
    w.sums[0][i] = sum;
  }
  EACH(i, JOINTS) {
    int before = 0;
    UNROLL for (int j = 0; j < JOINTS; ++j) before += j < i ? w.outside[ORDER[j]] : 0;
    if (w.outside[ORDER[i]]) w.limit[before] = ORDER[i];
  }
  EACH(geom, GEOMS) {
    int number = 0;
    UNROLL for (int i = 0; i < GEOMS; ++i) number += i < geom ? w.touching[i] : 0;
    const Link link = w.links[GEOM_BODY[geom]];
    const Point* pair = w.points + 2 * geom;
    const int swapped = pair[0].turn > pair[1].turn;  // the other one came first
    for (int i = 0; i < 2; ++i) {
      const Point& point = pair[i ^ swapped];
      if (point.turn > 0) w.contacts[number++] = {link.place + link.axes * point.local, geom};
    }
  }
  int limits = 0, contacts = 0;
  UNROLL for (int i = 0; i < JOINTS; ++i) limits += w.outside[i];
  UNROLL for (int i = 0; i < GEOMS; ++i) contacts += w.touching[i];
  SYNC;

  // ---- the mass matrix, a row of each degree of freedom, and the forces
  EACH(k, DOFS) {
    const int joint = k - ROOT, leg = k < ROOT ? 0 : joint / LINKS, link = k < ROOT ? -1 : joint % LINKS;
    const float* sums = w.sums[k < ROOT ? 0 : LINK_BODY[joint]];
    const Vec turn = w.S[k].turn, speed = w.S[k].speed;
    const Vec moment = {sums[MOMENT], sums[MOMENT + 1], sums[MOMENT + 2]};
    const float *I = sums + INERTIA;
    const Vec linear = speed * sums[MASS] + turn.cross(moment);
    const Vec angular = moment.cross(speed) + Vec{I[0] * turn.x + I[3] * turn.y + I[4] * turn.z,
                                                  I[3] * turn.x + I[1] * turn.y + I[5] * turn.z,
                                                  I[4] * turn.x + I[5] * turn.y + I[2] * turn.z};
    const int at = k < ROOT ? k * (k + 1) / 2 : leg_row(leg, link), end = k < ROOT ? k + 1 : ROOT + link + 1;
    float value = 0;
    UNROLL for (int i = 0; i < ROOT + LINKS; ++i)
      if (i < end) {
        const Motion other = w.S[i < ROOT ? i : i + leg * LINKS];
        value = other.turn.dot(angular) + other.speed.dot(linear);
        w.M[at + i] = value;
      }
    w.inverse[k] = 1 / value;
    const Vec torque = {sums[TORQUE], sums[TORQUE + 1], sums[TORQUE + 2]};
    const Vec force = {sums[FORCE], sums[FORCE + 1], sums[FORCE + 2]};
    w.tau[k] = turn.dot(torque) + speed.dot(force) + (k < ROOT ? 0 : w.motor[joint < 0 ? 0 : joint]);
  }
  SYNC;

  // ---- M = L^T D L, from the tips of the legs to the root; rows keep D L
  UNROLL for (int link = LINKS - 1; link >= 0; --link) {
    const int inner = link * ROOT + link * (link + 1) / 2;  // entries of a leg nearer to the root
    EACH(entry, ROOT * (ROOT + 1) / 2 + LEGS * inner) {
      const int rest = entry - ROOT * (ROOT + 1) / 2;
      if (rest < 0) {
        const int i = root_row(entry), j = entry - i * (i + 1) / 2;
        float value = w.M[entry];
        UNROLL for (int leg = 0; leg < LEGS; ++leg) {
          const int at = leg_row(leg, link);
          value -= w.M[at + i] * w.M[at + j] * w.inverse[ROOT + leg * LINKS + link];
        }
        w.M[entry] = value;
        if (i == j) w.inverse[i] = 1 / value;
      } else {
        const int leg = rest / (inner ? inner : 1), within = rest % (inner ? inner : 1);
        const int upper = within >= ROOT + 1, j = within - upper * (ROOT + 1), i = ROOT + upper;
        const int at = leg_row(leg, link), place = leg_row(leg, 0) + within;
        const float value = w.M[place] - w.M[at + i] * w.M[at + j] * w.inverse[ROOT + leg * LINKS + link];
        w.M[place] = value;
        if (i == j) w.inverse[ROOT + leg * LINKS + upper] = 1 / value;
      }
    }
    SYNC;
  }
  UNROLL for (int k = ROOT - 1; k > 0; --k) {
    EACH(entry, k * (k + 1) / 2) {
      const int i = root_row(entry), j = entry - i * (i + 1) / 2, at = k * (k + 1) / 2;
      const float value = w.M[entry] - w.M[at + i] * w.M[at + j] * w.inverse[k];
      w.M[entry] = value;
      if (i == j) w.inverse[i] = 1 / value;
    }
    SYNC;
  }

  // ---- the accelerations, M^-1 tau, and the rows of all constraints with their answers, M^-1 J
  const int count = limits + (1 + AXES) * contacts;
  EACH(item, count + 1) {
    const int number = item - 1;
    Vec direction = {0, 0, 0}, lever = {0, 0, 0};
    float along_joint = 0, target = 0;
    int leg = 0, depth = -1, joint = -1;  // depth -1: the row does not touch the root either
    if (number >= limits) {
      const int axis = (number >= limits + contacts) + (number >= limits + 2 * contacts);
      const int contact = number - limits - axis * contacts;
      const Contact& point = w.contacts[contact];
      direction = axis == 0 ? Vec{0, 0, 1} : axis == AXES ? Vec{1, 0, 0} : Vec{0, 1, 0};
      lever = point.arm.cross(direction);
      leg = LEG[GEOM_BODY[point.geom]], depth = DEPTH[GEOM_BODY[point.geom]];
      const float distance = (PLANAR ? HEIGHT + w.q[1] : w.q[2]) + point.arm.z + SLOP;
      if (axis == 0) target = (distance > 0 ? -distance : -distance * CONTACT_SHARE) / TIME_STEP;
    } else if (number >= 0) {
      joint = w.limit[number];
      const float below = w.q[ROOT_Q + joint] - LOWER[joint], inside = least(below, UPPER[joint] - w.q[ROOT_Q + joint]);
      along_joint = below <= 0 ? RATE[joint] : -RATE[joint];
      target = inside > -SLACK ? -inside * LIMIT_SHARE / TIME_STEP : 0;
    }
    float J[WIDE], X[WIDE];
    UNROLL for (int k = 0; k < WIDE; ++k) {
      J[k] = 0;
      if (k < DOFS) {
        const bool moves = k < ROOT ? depth >= 0 : (k - ROOT) / LINKS == leg && (k - ROOT) % LINKS < depth;
        if (moves) J[k] = w.S[k].speed.dot(direction) + w.S[k].turn.dot(lever);
        if (k - ROOT == joint && k >= ROOT) J[k] = along_joint;
        if (number < 0) J[k] = w.tau[k];
      }
      X[k] = J[k];
    }
    UNROLL for (int leg = 0; leg < LEGS; ++leg)
      UNROLL for (int link = LINKS - 1; link >= 0; --link) {
        const int k = ROOT + leg * LINKS + link, at = leg_row(leg, link);
        X[k] *= w.inverse[k];
        UNROLL for (int i = 0; i < ROOT + link; ++i) X[i < ROOT ? i : i + leg * LINKS] -= w.M[at + i] * X[k];
      }
    UNROLL for (int k = ROOT - 1; k >= 0; --k) {
      X[k] *= w.inverse[k];
      UNROLL for (int i = 0; i < k; ++i) X[i] -= w.M[k * (k + 1) / 2 + i] * X[k];
    }
    UNROLL for (int k = 0; k < DOFS; ++k) {
      const int joint = k - ROOT, leg = joint / LINKS, link = joint % LINKS;
      const int at = k < ROOT ? k * (k + 1) / 2 : leg_row(leg, link), end = k < ROOT ? k : ROOT + link;
      float sum = 0;
      UNROLL for (int i = 0; i < end; ++i) sum += w.M[at + i] * X[i < ROOT ? i : i + leg * LINKS];
      X[k] -= sum * w.inverse[k];
    }
    if (number < 0) {
      UNROLL for (int k = 0; k < DOFS; ++k) w.acceleration[k] = X[k];
    } else {
      float speed = 0, size = 0, push = 0;
      Row& row = row_at(number);
      UNROLL for (int k = 0; k < WIDE; ++k) {
        if (k < DOFS) {
          speed += J[k] * w.v[k];
          push += X[k] * w.tau[k];
          size += J[k] * X[k];
        }
        row.J[k] = J[k];
        row.X[k] = X[k];
      }
      row.missing = target - speed - TIME_STEP * push;
      row.own = size > 0 ? 1 / size : 0;
      row.impulse = 0;
    }
  }
  SYNC;

  // ---- sweeps: four lanes share the change of the speeds, the others do the same
  // Every lane reads an impulse before the sum over the lanes, and writes it, the same number, after it.
  float change[SHARE];
  UNROLL for (int i = 0; i < SHARE; ++i) change[i] = 0;
  auto taken = [&](const Row& row) {
    Part part;
    UNROLL for (int i = 0; i < SHARE; ++i) part.J[i] = row.J[first + i], part.X[i] = row.X[first + i];
    part.missing = row.missing, part.own = row.own, part.impulse = row.impulse;
    return part;
  };
  auto asked = [&](const Part& part) {
#if defined(__CUDA_ARCH__)
    float sum = 0;
    UNROLL for (int i = 0; i < SHARE; ++i) sum += part.J[i] * change[i];
    sum += __shfl_xor_sync(group, sum, 1);
    sum += __shfl_xor_sync(group, sum, 2);
#else
    float four[4] = {0, 0, 0, 0};
    for (int i = 0; i < WIDE; ++i) four[i / (WIDE / 4)] += part.J[i] * change[i];
    const float sum = (four[0] + four[1]) + (four[2] + four[3]);
#endif
    return part.impulse + (part.missing - sum) * part.own;
  };
  auto push = [&](Row& row, const Part& part, float impulse) {
    UNROLL for (int i = 0; i < SHARE; ++i) change[i] += part.X[i] * (impulse - part.impulse);
    row.impulse = impulse;
  };
  auto solve = [&](auto at) {
    for (int sweep = 0; sweep < SWEEPS; ++sweep) {
      auto place = [&](int i) { return i >= limits || sweep % 2 ? i : limits - 1 - i; };
      const int last = limits + contacts - 1;
      Part next = taken(at(place(0)));
      for (int i = 0; i <= last; ++i) {
        const Part now = next;
        next = taken(at(place(i < last ? i + 1 : i)));  // early, because memory is slow
        const float impulse = asked(now);
        push(at(place(i)), now, impulse > 0 ? impulse : 0.0f);
      }
      for (int i = 0; i < contacts; ++i) {
        Row &across = at(limits + contacts + i), &along = at(limits + AXES * contacts + i);
        const Part one = taken(along), other = taken(across);
        const float most = FRICTION * at(limits + i).impulse;
        const float x = asked(one), y = AXES == 2 ? asked(other) : 0, size = sqrtf(x * x + y * y);
        const float share = size > most ? most / size : 1;
        if (AXES == 2) push(across, other, share * y);
        push(along, one, share * x);
      }
    }
  };
  if (count > ROWS_AT_HAND) solve(row_at);
  else if (count) solve([&](int number) -> Row& { return w.rows[number]; });
  if (lane < 4) {
    UNROLL for (int i = 0; i < SHARE; ++i) w.change[first + i] = change[i];
  }
  SYNC;

  // ---- motion
  EACH(k, DOFS) w.v[k] = held(w.v[k] + TIME_STEP * w.acceleration[k] + w.change[k], FASTEST);
  SYNC;
  EACH(i, 4 + JOINTS) {
    if (i < 3) {
      w.q[i] += TIME_STEP * w.v[i];
    } else if (i > 3) {
      w.q[ROOT_Q + i - 4] += TIME_STEP * RATE[i - 4] * w.v[ROOT + i - 4];
    } else if (!PLANAR) {
      float* q = w.q + 3;
      const Vec turn = {w.v[3 % DOFS], w.v[4 % DOFS], w.v[5 % DOFS]}, v = {q[1], q[2], q[3]};
      const float speed = turn.length(), angle = 0.5f * TIME_STEP * speed, c = cosf(angle);
      const Vec s = turn * (speed > 0 ? sinf(angle) / speed : 0.0f), u = s * q[0] + v * c + v.cross(s);
      const float a = q[0] * c - v.dot(s), scale = 1 / sqrtf(a * a + u.dot(u));
      q[0] = a * scale, q[1] = u.x * scale, q[2] = u.y * scale, q[3] = u.z * scale;
    }
  }
  SYNC;
}

// ---- the position, in which the floor counts as a part, and the observation
float place_x = TORSO * w.q[0], place_y = PLANAR ? 0 : TORSO * w.q[1];
for (int body = 0; body < BODIES; ++body) place_x += w.weighted[body][0], place_y += w.weighted[body][1];
auto clipped = [&](float value) { return value == value ? held(value, CLIP) : 0.0f; };  // NaN would slow the solver
float* const seen = observation.data + world * (8 + 2 * JOINTS + FEET);
if (lane == 0) {
  place.data[2 * world] = place_x;
  place.data[2 * world + 1] = place_y;
  if (world == 0) time.data[0] += steps * TIME_STEP;
  float roll, pitch, yaw, rise, ahead = 0;
  Vec speed;
  if (PLANAR) {
    const float lag = TIME_STEP * w.v[2], theta = w.q[2] - lag;  // Bullet's links are one physics step late
    const float angle = theta - 2 * PI * rintf(theta / (2 * PI));
    const bool upright = fabsf(angle) <= PI / 2;
    roll = upright ? 0 : angle > 0 && angle < 2 * PI / 3 ? -PI : PI;
    pitch = upright ? angle : angle > 0 ? PI - angle : -PI - angle;
    yaw = upright ? 0 : PI;
    rise = w.q[1] - TIME_STEP * w.v[1];
    speed = {w.v[0] - lag * w.v[1], 0, w.v[1] + lag * w.v[0]};
  } else {
    const float *q = w.q + 3, scale = 1 / sqrtf(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    const float a = q[0] * scale, b = q[1] * scale, c = q[2] * scale, d = q[3] * scale, sine = 2 * (a * c - b * d);
    const bool down = sine <= -0.99999f, up = sine >= 0.99999f;
    roll = down || up ? 0 : atan2f(2 * (c * d + a * b), a * a - b * b - c * c + d * d);
    pitch = down ? -PI / 2 : up ? PI / 2 : asinf(sine);
    yaw = atan2f(2 * (b * c + a * d), a * a + b * b - c * c - d * d);
    if (down || up) yaw = 2 * atan2f(down ? b : -b, down ? -c : c);
    rise = w.q[2] - INITIAL_Z;
    speed = {w.v[0], w.v[1], w.v[2]};
    ahead = atan2f(-place_y, TARGET_X - place_x);
  }
  const float c = cosf(yaw), s = sinf(yaw);
  seen[0] = clipped(rise), seen[1] = clipped(sinf(ahead - yaw)), seen[2] = clipped(cosf(ahead - yaw));
  seen[3] = clipped(0.3f * (c * speed.x + s * speed.y)), seen[4] = clipped(0.3f * (c * speed.y - s * speed.x));
  seen[5] = clipped(0.3f * speed.z), seen[6] = clipped(roll), seen[7] = clipped(pitch);
}
EACH(i, JOINTS) {
  seen[8 + 2 * i] = clipped(2 * (w.q[ROOT_Q + i] - LOWER[i]) / (UPPER[i] - LOWER[i]) - 1);
  seen[9 + 2 * i] = clipped(0.1f * RATE[i] * w.v[ROOT + i]);
}
EACH(i, FEET) {
  float* touched = memory_here + MEMORY - FEET + i;
  seen[8 + 2 * JOINTS + i] = *touched;
  *touched = w.points[2 * FOOT[i]].turn + w.points[2 * FOOT[i] + 1].turn > 0 ? 1.0f : 0.0f;
}
EACH(i, ROOT_Q + JOINTS) qpos_here[i] = w.q[i];
EACH(i, DOFS) qvel_here[i] = w.v[i];
EACH(i, MEMORY - FEET) memory_here[i] = ((float*)w.points)[i];
